"""The rank that failed first, from what its launcher and Slurm left in a job's output.

A launcher reads its own report (`launchers/`); srun tells the ends of its tasks in messages of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from muster.act.watch import JobOutput, LogFile
from muster.launchers import by_agents_first, known_launcher
from muster.launchers.base import Launcher
from muster.model.failure import Failure, of_agent
from muster.slurm.srun_messages import read_step

__all__ = ["first_failure"]

# The launchers' words stand in the last part of a file.
_LOOKED_AT_BYTES = 1 << 22


def first_failure(output: JobOutput) -> Failure | None:
    """Return what went wrong first, as exactly as the launcher tells it; None where nothing tells of a failure.

    A job that is not Muster's may have any launcher: the report of each is looked for.
    """
    files = output.files()
    known = known_launcher(output.launcher)
    for launcher in [known] if known is not None else by_agents_first():
        failure = launcher.first_failure(_lines(file) for file in files)
        if failure is not None:
            return failure
    return _of_srun(files, known)


def _of_srun(files: Sequence[LogFile], launcher: Launcher | None) -> Failure | None:
    """Return the failure that srun tells; the batch script's own file is the last, and srun writes there."""
    failure = next((failure for file in reversed(files) if (failure := read_step(_lines(file)).first)), None)
    return of_agent(failure, launcher.agent) if launcher is not None and launcher.agent else failure


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
