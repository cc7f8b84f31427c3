"""The rows of a sweep that share jobs: each is told as a job of its own, by the status that it left in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.slurm.reasons import reason_of
from muster.slurm.states import STATES
from muster.slurm.submit import array_indices

if TYPE_CHECKING:
    from pathlib import Path

    from muster.act.record import Run
    from muster.slurm.jobs import SlurmJob


def job_of_row(asked_id: str, run: Run | None) -> str:
    """Return the id by which Slurm knows a row: that of the first row in its job. Of any other job, the id itself."""
    array, _, row = asked_id.partition("_")
    if run is None or not run.rows_per_job or not row.isdigit():
        return asked_id
    return f"{array}_{neighbours_of(int(row), run).start}"


def directory_of_row(run: Run | None, job: SlurmJob) -> Path | None:
    """Return the run directory of a row that shares its job with others; None: the job is one run."""
    if run is None or not run.rows_per_job:
        return None
    return run.directory / f"task-{job.shown_id.partition('_')[2]}"


def neighbours_of(row: int, run: Run) -> range:
    """Return the rows that share a job with this one, and the row itself."""
    count = run.rows_per_job or 1
    first = row - (row - 1) % count
    return range(first, first + count)


def jobs_of_rows(asked_id: str, run: Run, jobs: Sequence[SlurmJob]) -> Iterator[SlurmJob]:
    """Yield a job for each row that an id means, by Slurm's word on the job that holds it and by the row's own end."""
    task = asked_id.partition("_")[2]
    for row in tasks_of(run):
        if task in {"", str(row)}:
            holder = next((job for job in jobs if holds(job, neighbours_of(row, run).start)), None)
            if holder is not None:
                yield _as_row(holder, f"{run.job}_{row}", _status_of(run, row))


def tasks_of(run: Run) -> list[int]:
    """Return the numbers of an array's tasks, or of a sweep's rows: each has a folder from its submission on."""
    names = (folder.name.partition("-")[2] for folder in run.directory.glob("task-*"))
    return sorted(int(name) for name in names if name.isdigit())


def holds(job: SlurmJob, first_row: int) -> bool:
    """Return whether a job is the task with this number; of what waits Slurm shows one entry for many: 57_[5-9:4]."""
    task = job.shown_id.partition("_")[2]
    if task.isdigit():
        return int(task) == first_row
    return first_row in (array_indices(task.strip("[]")) or [first_row])  # a long list is cut: 57_[1,5,9,...]


def _status_of(run: Run, row: int) -> int | None:
    """Return the exit status that a row left; None: it has not ended, or was ended with its whole job."""
    try:
        return int((run.directory / f"task-{row}" / "status").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _as_row(holder: SlurmJob, shown_id: str, status: int | None) -> SlurmJob:
    if status is None:
        return replace(holder, shown_id=shown_id)
    state = STATES["FAILED" if status else "COMPLETED"]
    reason = reason_of("NonZeroExitCode" if status else "None")
    return replace(holder, shown_id=shown_id, state=state, reason=reason, exit_code=status, signal=None)
