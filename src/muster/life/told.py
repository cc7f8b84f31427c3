"""Who failed first in one attempt, read from what the launchers and the ranks wrote: lines in, values out.

Standard library only, Python 3.6.
"""

import os
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

_END_BYTES = 1 << 18
_SIGNALS = {
    "Hangup": 1, "Interrupt": 2, "Quit": 3, "Illegal instruction": 4, "Trace/breakpoint trap": 5, "Aborted": 6,
    "Bus error": 7, "Floating point exception": 8, "Killed": 9, "Out Of Memory": 9, "User defined signal 1": 10,
    "Segmentation fault": 11, "User defined signal 2": 12, "Broken pipe": 13, "Alarm clock": 14, "Terminated": 15,
    "CPU time limit exceeded": 24, "File size limit exceeded": 25,
}  # fmt: skip


class FailedRank(NamedTuple):
    """What a launcher says of the first failure."""

    rank: Optional[int] = None
    host: str = ""
    daemon: str = ""
    """The sentence on a daemon of mpirun's that was lost; empty: none was."""


class SrunEnd(NamedTuple):
    """One line of srun on the end of tasks, or of a node."""

    host: str
    tasks: Tuple[int, ...]
    """None: the node itself failed."""

    status: int = 0
    words: str = ""
    """Why its tasks were not started, if they were not."""


_NODE = re.compile(r"^srun: error: Node failure on ([^\s,]+)")
_NOT_STARTED = re.compile(r"^srun: error: tasks? ([0-9,-]+) launch failed: (.+)$")
_TASKS = re.compile(r"^srun: error: ([^:\s]+): tasks? ([0-9,-]+): (.+)$")


def read_srun(line: str) -> Optional[SrunEnd]:
    """Return what one line of srun says of an end; None: it is about something else."""
    node = _NODE.match(line)
    if node is not None:
        return SrunEnd(node.group(1), ())
    not_started = _NOT_STARTED.match(line)
    if not_started is not None:
        words = "srun could not start it: " + not_started.group(2).strip()
        return SrunEnd("", tuple(_expand(not_started.group(1))), 1, words)
    tasks = _TASKS.match(line)
    if tasks is None:
        return None
    words = tasks.group(3).strip()
    if words.endswith(" (core dumped)"):
        words = words[: -len(" (core dumped)")]
    code = re.match(r"Exited with exit code (\d+)$", words)
    status = int(code.group(1)) if code else 128 + _SIGNALS[words] if words in _SIGNALS else 0
    return SrunEnd(tasks.group(1), tuple(_expand(tasks.group(2))), status) if status else None


def _expand(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            yield from range(int(first), int(last or first) + 1)


def waits_for_nodes(line: str) -> bool:
    """Return whether srun says that its step does not begin, because the nodes are busy."""
    return line.startswith("srun: ") and "step creation" in line.lower() and "disabled" in line


def dead_node(text: str) -> str:
    """Return the node that starts no step, in srun's words; empty: none."""
    match = re.search(r" failed on node ([^\s:]+)", text)
    return match.group(1) if match else ""


# The first failed rank, by launcher

_MPI_RANK = re.compile(r"^(?:\[[0-9,]*\](?:<std[a-z]*>:| ))?muster: rank ([0-9]+) on (\S+) ended with status ")
_MPI_SIGNAL = re.compile(r" noticed that process rank ([0-9]+) with PID [0-9]+ on node (\S+) exited on ")
_MPI_DAEMON = re.compile(r"Remote daemon: .* on node (\S+)")
_MPI_NO_START = "daemon has unexpectedly failed after launch"
_MPI_WAITED = "muster: Slurm ended the step of mpirun's daemons"


def first_of_mpirun(lines: Sequence[str]) -> FailedRank:
    """Return the first rank that its shell, or mpirun, tells of; else the daemon that mpirun lost."""
    for line in lines:
        match = _MPI_RANK.match(line) or _MPI_SIGNAL.search(line)
        if match:
            return FailedRank(int(match.group(1)), match.group(2))
    # Its node may have died, or Slurm ended the daemon with the step.
    host = next((match.group(1) for match in map(_MPI_DAEMON.search, lines) if match), "")
    if host or any(line.startswith(_MPI_WAITED) for line in lines):
        return FailedRank(None, host, "mpirun lost its daemon" + (" on " + host if host else ""))
    has_no_start = any(_MPI_NO_START in line for line in lines)
    return FailedRank(daemon="mpirun could not start its daemons on the nodes" if has_no_start else "")


def first_of_torchrun(lines: Sequence[str]) -> FailedRank:
    """Return the first rank that failed, as the agents report it; else the node of which srun says that it failed."""
    reports = reports_of_torchrun(lines)
    if reports:
        return FailedRank(reports[0][2], reports[0][3])
    node = next((match.group(1) for match in map(_NODE.match, lines) if match), "")
    return FailedRank(None, node)


def reports_of_torchrun(lines: Sequence[str]) -> List[Tuple[bool, str, int, str]]:
    """Return the first rank of each agent, the earliest first: whether it was ended, when, its number, its host."""
    reports: List[Tuple[bool, str, int, str]] = []
    fields: Optional[Dict[str, str]] = None
    for line in lines:
        if "Root Cause (first observed failure)" in line:
            fields = {}
        match = re.search(r" (time|host|rank|exitcode) +: (\S+)", line) if fields is not None else None
        if fields is None or match is None:
            continue
        fields[match.group(1)] = match.group(2)
        if match.group(1) == "exitcode":
            rank = fields.get("rank", "")
            if rank.isdigit():
                ended = (fields["exitcode"] == "-15", fields.get("time", ""), int(rank), fields.get("host", ""))
                reports.append(ended)
            fields = None
    return sorted(reports)


def first_of_srun(lines: Sequence[str]) -> FailedRank:
    """Return the first task whose end srun reports; a node that failed comes before the tasks that Slurm then ended."""
    ends = [end for end in map(read_srun, lines) if end is not None]
    node = next((end.host for end in ends if not end.tasks), "")
    if node:
        return FailedRank(None, node)
    return FailedRank(ends[0].tasks[0], ends[0].host) if ends else FailedRank()


FIRST: Dict[str, Callable[[Sequence[str]], FailedRank]] = {
    "srun": first_of_srun, "torchrun": first_of_torchrun, "mpirun": first_of_mpirun,
}  # fmt: skip

# What the ranks themselves wrote

_ERROR = re.compile(
    "Error|Exception|[Ee]rror: |usage:|[Ff]atal|[Ff]ault|[Aa]bort|terminate called|[Oo]ut of memory|No such file"
    "|can.t open|not match"
)
_OF_MUSTER = re.compile(r"srun: |slurmstepd|muster: (?:rank|attempt) ")
_OF_TORCH = re.compile(r"^\[rank[0-9]+\]: ")
_LABELS = (re.compile(r"^ *([0-9]+): "), re.compile(r"^\[[0-9]+,([0-9]+)\]<std[a-z]+>:"), re.compile(r"^\[([0-9]+)\] "))


def read_end(path: str) -> List[str]:
    """Return the last lines of a file; none where it cannot be read."""
    return read_tail(path, _END_BYTES).decode("utf-8", "replace").splitlines()


def read_tail(path: str, count: int) -> bytes:
    """Return the last bytes of a file; none where it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read()
    except OSError:
        return b""


def last_error(lines: Sequence[str], rank: Optional[int], is_labelled: bool) -> str:
    """Return the last line of an error that the rank wrote; where no rank is known, the last of any."""
    common = labelled_line = ""
    for line in lines:
        who, text = _divide(line)
        text = _OF_TORCH.sub("", text)
        is_other = rank is not None and who is not None and who != rank
        if is_other or _OF_MUSTER.match(text) or not _ERROR.search(text):
            continue
        common = text
        if who is not None:
            labelled_line = text
    return (labelled_line if is_labelled else common).replace("\t", " ")[:300]


def _divide(line: str) -> Tuple[Optional[int], str]:
    """Return the rank before a line, if there is one, and the rest."""
    for label in _LABELS:
        match = label.match(line)
        if match:
            tag, rest = match.group(), line[match.end() :]
            # Open MPI writes its tag before each piece of a line that a rank has written.
            return int(match.group(1)), rest.replace(tag, "") if "<" in tag else rest
    return None, line


_MEMORY = re.compile(r"slurmstepd-?([^: ]*): error: .*exceeded memory limit \(([0-9]+) > ([0-9]+)\)")


def memory_words(lines: Sequence[str]) -> str:
    """Return that Slurm ended a step because of its memory: it counts that of a whole node; empty: it did not."""
    match = next((match for match in map(_MEMORY.search, lines) if match), None)
    if match is None:
        return ""
    used, limit = (int(match.group(number)) >> 20 for number in (2, 3))
    place = "on %s " % match.group(1) if match.group(1) else ""
    return "Slurm ended the ranks: %sthey used %d MiB of memory, and had %d" % (place, used, limit)


def end_words(status: int) -> str:
    """Return an exit status in words; one above 128 that is of no signal is one that the program chose."""
    import signal

    try:
        return "ended by " + signal.Signals(status - 128).name if status > 128 else "exit status %d" % status
    except ValueError:
        return "exit status %d" % status
