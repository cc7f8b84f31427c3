"""The jobs that an id means: what Slurm knows of each, beside our own record of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import RequestError, SchedulerSilent

if TYPE_CHECKING:  # a page of help needs none of these
    from pathlib import Path

    from muster.act.record import Run
    from muster.follow.scheduler import Answer, Scheduler
    from muster.slurm.jobs import Job

__all__ = ["Case", "Place", "find_cases", "run_of"]


class Case(NamedTuple):
    """One job that was asked about: what Slurm knows of it, and our own record."""

    asked: str
    job: Job | None
    run: Run | None


class Place(NamedTuple):
    """Where jobs are looked for: Slurm, our own records, and the cluster that Slurm's clients reach, by its name."""

    slurm: Scheduler
    state: Path
    cluster: str


def find_cases(ids: Sequence[str], answer: Answer, place: Place, *, records_do: bool = False) -> list[Case]:
    """Return what is known of each id. An unknown id is refused; so is silence, unless records are enough."""
    found: list[Case] = []
    for asked in ids:
        jobs = answer.of(asked)
        run = run_of(asked, jobs, place, is_silent=answer.silent)
        if not jobs and run is None:
            raise _unknown(asked, answer)
        if not jobs and answer.silent and not records_do:
            raise _silent(asked, run)
        found.extend(Case(asked, job, run) for job in jobs or (None,))
    return found


def run_of(asked: str, jobs: Sequence[Job], place: Place, *, is_silent: bool = False) -> Run | None:
    """Return Muster's record of a job; not that of another cluster's job with the same number."""
    from muster.act.record import find_run, forget, is_of, register

    made = find_run(place.state, asked.partition("_")[0], place.cluster)
    if made is None:
        return None
    if jobs:
        if not any(is_of(made, job) for job in jobs):
            return None
        if not made.cluster:  # of an earlier Muster: now its cluster is known
            from msgspec.structs import replace

            forget(place.state, made)
            made = replace(made, cluster=place.cluster)
            register(place.state, made)
        return made
    never_was = not is_silent and _comes_later(made, place.slurm)
    return None if never_was or not made.cluster else made


def _comes_later(made: Run, slurm: Scheduler) -> bool:
    """Return whether this cluster has not yet come to that number.

    Then the job was one of a cluster that is no more.
    """
    following = slurm.next_job_id()
    return following is not None and int(made.job) >= following


def _unknown(asked: str, answer: Answer) -> Exception:
    if answer.silent:
        return _silent(asked, None)
    forgotten = "Slurm forgets a job some minutes after its end, and this cluster keeps no accounts"
    return RequestError(
        f"there is no job {asked}, or it is not to be seen by you",
        hint=forgotten if answer.has_accounting is False else "muster jobs lists yours",
    )


def _silent(asked: str, run: Run | None) -> SchedulerSilent:
    from muster.runner import MUNGE_HINT, MUNGE_IS_DOWN, munge_is_down

    output = "" if run is None else f"; its output lies in {run.directory / 'logs'}"
    if munge_is_down():
        return SchedulerSilent(f"Slurm cannot be asked for job {asked}: {MUNGE_IS_DOWN}", hint=f"{MUNGE_HINT}{output}")
    return SchedulerSilent(
        f"the Slurm controller does not answer, and accounting does not know job {asked}",
        hint=f"try again in a minute{output}",
    )
