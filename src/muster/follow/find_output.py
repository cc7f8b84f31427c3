"""Where a job's output lies: in its run directory, where its -o says, or where Slurm was told to write it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from muster.act.record import Run, written_object
from muster.follow.attempt_list import read_attempts
from muster.follow.watch import JobOutput, output_of_files, output_of_run
from muster.slurm.filenames import glob_of
from muster.slurm.jobs import SlurmJob


def find_output(
    job: SlurmJob | None, run: Run | None, asked_id: str = "", attempt: int | None = None
) -> JobOutput | None:
    """Return the output of a job, for Muster's jobs even if Slurm has forgotten them; None if its place is unknown.

    `asked` is its id as it was typed: of an array that Slurm has forgotten it alone names the task.
    """
    if run is not None:
        name = (job.shown_id if job else asked_id).partition("_")[2]
        task = name if name.isdigit() else None
        moved_paths = tuple(_moved(run, job))
        if moved_paths and attempt is None:  # one file holds them all, and the last is meant
            attempts = read_attempts(run.directory if task is None else run.directory / f"task-{task}")
            attempt = attempts[-1].number if len(attempts) > 1 else None
        return output_of_run(run.directory, moved_paths, task, attempt)
    if job is None or job.stdout is None:
        return None
    return output_of_files(_matching(job.stdout, job.id, job))


def closed_output(job: SlurmJob | None) -> Path | None:
    """Return where the output of a job lies that you may not read: the file, or the first directory on its way."""
    if job is None or job.stdout is None:
        return None
    for file in _matching(job.stdout, job.id, job):
        if not os.access(file, os.R_OK):
            return file
    for folder in reversed(Path(job.stdout).parents):
        if not os.access(folder, os.F_OK):
            return None
        if not os.access(folder, os.X_OK):
            return folder
    return None


def unkept_output(job: SlurmJob | None, run: Run | None) -> Path | None:
    """Return where the output of a job goes that keeps none of it, such as /dev/null; None: it goes to files."""
    named_places = [] if job is None or job.stdout is None else [job.stdout]
    places = named_places if run is None else list(_patterns(run))
    return next((path for place in places if (path := Path(place)).exists() and not path.is_file()), None)


def _moved(run: Run, job: SlurmJob | None) -> Iterator[Path]:
    """Return the files that -o and -e of a run of Muster's named."""
    for pattern in _patterns(run):
        yield from _matching(pattern, run.job, job)


def _patterns(run: Run) -> Iterator[str]:
    """Return the names of files that -o and -e of a run of Muster's gave, as Slurm reads them."""
    plan = written_object(run.directory / "plan.json")
    try:
        folder = Path(plan["working_directory"])
        patterns = [directive["value"] for directive in plan["directives"] if directive["name"] in {"output", "error"}]
    except (KeyError, TypeError):
        return
    yield from (str(folder / str(pattern)) for pattern in patterns)


def _matching(pattern: str, job_id: str, job: SlurmJob | None) -> list[Path]:
    """Return the files there are now; unknown letters stand for anything."""
    names = glob(glob_of(pattern, _letters(job_id, job)))
    return [path for name in sorted(names) if (path := Path(name)).is_file()]


def _letters(job_id: str, job: SlurmJob | None) -> dict[str, str]:
    """Return what sbatch's patterns stand for, as far as it is known."""
    array, _, index = (job.shown_id if job else job_id).partition("_")
    letters = {"j": job_id, "A": array}
    if job is not None:
        letters |= {"x": job.name, **({"u": job.user} if job.user else {})}
    return letters | ({"a": index} if index.isdigit() else {})
