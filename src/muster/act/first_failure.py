"""The rank that failed first, from what the launchers left in a job's output.

srun tells it in its own messages. torchrun hides its ranks from srun and reports the first failure of each node;
Open MPI names its first process; MPICH names a host at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from muster.act.watch import JobOutput, LogFile
from muster.slurm.srun_messages import Failure, exit_words, read_step
from muster.units import whole_number

__all__ = ["earliest_of_torchrun", "first_failure", "mpirun_failure", "of_agent", "torchrun_failure"]

# The launchers' words stand in the last part of a file.
_LOOKED_AT_BYTES = 1 << 22

_ROOT_CAUSE = "Root Cause (first observed failure):"
_FIELD = re.compile(r"^\s+(?P<name>time|host|rank|exitcode)\s+: (?P<value>\S+)")
_SIGTERM_STATUS = 128 + 15

_OPEN_MPI_SIGNAL = re.compile(
    r"^\S+ noticed that process rank (?P<rank>[0-9]{1,9}) with PID [0-9]+ on node (?P<host>\S+) "
    r"exited on signal (?P<signal>[0-9]{1,9})"
)
_OPEN_MPI_PROCESS = re.compile(r"^\s*Process name: \[\[[^\]]*\],(?P<rank>[0-9]{1,9})\]")
_OPEN_MPI_CODE = re.compile(r"^\s*Exit code:\s+(?P<code>[0-9]{1,9})")
_OPEN_MPI_DAEMON = re.compile(r"^\s*Remote daemon: \[\[[^\]]*\],[0-9]+\] on node (?P<host>\S+)")
_HYDRA_HOST = re.compile(r"^=\s+(?:RANK (?P<rank>[0-9]{1,9}) )?PID [0-9]+ RUNNING AT (?P<host>\S+)")
_HYDRA_SIGNAL = re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>[0-9]{1,9})\)")


def first_failure(output: JobOutput) -> Failure | None:
    """What went wrong first, as exactly as the launcher tells it; None where nothing tells of a failure."""
    files = output.files()
    for read in _READERS.get(output.launcher or "", _READERS[""]):
        failure = read(files)
        if failure is not None:
            return failure
    return None


def _told_by_torchrun(files: Sequence[LogFile]) -> Failure | None:
    return earliest_of_torchrun(_lines(file) for file in files)


def earliest_of_torchrun(outputs: Iterable[Iterable[str]]) -> Failure | None:
    """The earliest failure of any node. What torchrun itself ended with SIGTERM is no cause, if a node knows one."""
    reports = [found for lines in outputs if (found := torchrun_failure(lines))]
    if not reports:
        return None
    return min(reports, key=lambda each: (each[1].status == _SIGTERM_STATUS, each[0]))[1]


def _told_by_srun(files: Sequence[LogFile]) -> Failure | None:
    """The batch script's own file is the last, and srun writes there."""
    return next((found for file in reversed(files) if (found := read_step(_lines(file)).first)), None)


def _told_of_agents(files: Sequence[LogFile]) -> Failure | None:
    """srun's tasks are agents here, whose numbers are not those of ranks."""
    return of_agent(_told_by_srun(files))


def of_agent(failure: Failure | None) -> Failure | None:
    """Return the failure of srun's task as what it is where that task is an agent of torchrun's: of no rank."""
    if failure is None or not failure.tasks:
        return failure
    how = failure.sentence.partition(": ")[2]
    return replace(failure, sentence=f"torchrun itself on {failure.host}: {how}", tasks=())


def _told_by_mpirun(files: Sequence[LogFile]) -> Failure | None:
    return next((found for file in files if (found := mpirun_failure(_lines(file)))), None)


# Launcher → who is asked, in this order. An agent of torchrun is a task of srun's or mpirun's: torchrun knows ranks.
_READERS = {
    "srun": (_told_by_srun,),
    "torchrun": (_told_by_torchrun, _told_of_agents),
    "mpirun": (_told_by_mpirun, _told_by_srun),
    "mpirun+torchrun": (_told_by_torchrun, _told_of_agents),
    "srun+horovod": (_told_by_srun,),
    "mpirun+horovod": (_told_by_mpirun, _told_by_srun),
    "": (_told_by_torchrun, _told_by_srun, _told_by_mpirun),
}


def torchrun_failure(lines: Iterable[str]) -> tuple[str, Failure] | None:
    """(time, failure) of torchrun's report, if one stands in these lines."""
    fields: dict[str, str] | None = None
    first_line = ""
    for line in lines:
        if line.startswith(_ROOT_CAUSE):
            fields, first_line = {}, line
        found = _FIELD.match(line) if fields is not None else None
        if found is None or fields is None:
            continue
        fields.setdefault(found["name"], found["value"])
        if {"time", "host", "rank", "exitcode"} <= fields.keys():
            return fields["time"], _of_torchrun(fields, first_line)
    return None


def _of_torchrun(fields: dict[str, str], line: str) -> Failure:
    code = int(fields["exitcode"]) if re.fullmatch(r"-?[0-9]{1,9}", fields["exitcode"]) else None
    status = None if code is None else 128 - code if code < 0 else code
    rank = whole_number(fields["rank"])
    return _failure(rank, fields["host"], status, line)


def mpirun_failure(lines: Iterable[str]) -> Failure | None:
    """The first failure as Open MPI or MPICH report it."""
    rank: int | None = None
    host: str | None = None
    in_hydra = ""
    for line in lines:
        if found := _OPEN_MPI_SIGNAL.match(line):
            return _failure(int(found["rank"]), found["host"], 128 + int(found["signal"]), line)
        if found := _OPEN_MPI_PROCESS.match(line):
            rank = int(found["rank"])
        elif rank is not None and (found := _OPEN_MPI_CODE.match(line)):
            return _failure(rank, None, int(found["code"]), line)
        elif found := _OPEN_MPI_DAEMON.match(line):
            text = f"mpirun lost its daemon on {found['host']}: the node or the way to it failed, or somebody ended it"
            return Failure(text, found["host"], (), None, line.strip())
        elif found := _HYDRA_HOST.match(line):
            host, in_hydra = found["host"], line
            rank = int(found["rank"]) if found["rank"] else None
        elif host is not None and (found := _HYDRA_SIGNAL.match(line)):
            return _failure(rank, host, 128 + int(found["signal"]), line)
    return _failure(rank, host, None, in_hydra) if host is not None else None


def _failure(rank: int | None, host: str | None, status: int | None, line: str) -> Failure:
    who = "a rank" if rank is None else f"rank {rank}"
    where = "" if host is None else f" on {host}"
    how = "failed" if status is None else exit_words(status)
    return Failure(f"{who}{where}: {how}", host, () if rank is None else (rank,), status, line.strip())


def _lines(file: LogFile) -> Iterator[str]:
    """The lines of the file's last part without the labels of ranks, whose own words are no report of a launcher."""
    try:
        with Path(file.path).open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _LOOKED_AT_BYTES))
            for raw in stream:
                line = file.line(raw.rstrip(b"\r\n"))
                if not line.labelled:
                    yield line.text.decode(errors="replace")
    except OSError:
        return
