"""The jobs that a person means: the ids that were typed, or the newest, and what Slurm and our records know of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from muster.errors import MachineLacks, NoSlurm, RequestError, SchedulerSilent, SiteError
from muster.follow.cases import JobCase, JobSources, find_cases, ids_with_links

if TYPE_CHECKING:  # a page of help needs none of these
    from pathlib import Path

    from muster.cli.command_line import Words
    from muster.follow.scheduler import Answer, Scheduler


def job_ids(words: Words) -> tuple[str, ...]:
    """Return the job ids that were typed, each once; for 57_[1-3], as jobs shows what waits, those of the tasks."""
    return tuple(dict.fromkeys(job_id for word in words.operands for job_id in _tasks_in(word)))


def _tasks_in(word: str) -> Iterator[str]:
    """Yield the id of each job that a word names: squeue reads no id with brackets."""
    from muster.slurm.jobs import parse_job_id
    from muster.slurm.submit import array_indices

    array, _, tasks = parse_job_id(word).partition("_")
    if not tasks.startswith("["):
        yield word
        return
    numbers = array_indices(tasks.strip("[]"))
    if not 0 < len(numbers) <= _MOST_TASKS:
        raise RequestError(f"{word!r} does not name 1 to {_MOST_TASKS} tasks", hint=f"the whole array: {array}")
    yield from (f"{array}_{number}" for number in numbers)


_MOST_TASKS = 10_000


def ids_or_newest(words: Words) -> tuple[str, ...]:
    """Return the job ids that were typed; without any, the job of Muster's that was queued last, which is named."""
    from muster.act.record import recent_runs
    from muster.cli.job_words import plain, when
    from muster.cli.output import say

    if words.operands:
        return job_ids(words)
    newest = next(recent_runs(state(), cluster(), since=0, most=1), None)
    if newest is None:
        raise RequestError(_of_no_run(cluster()), hint="muster jobs lists yours; name the job that you mean")
    queued = f" of {when(newest.submitted)}" if newest.submitted is not None else ""
    sentence = f"your newest job of Muster is {newest.job} ({plain(newest.name)}){queued}"
    say(sentence, quiet=getattr(words, "json", False))
    return (newest.job,)


def _of_no_run(cluster_here: str) -> str:
    """Return that no job is named, and what is known of those that could be meant."""
    from muster.act.record import known_runs
    from muster.look.cluster import UNNAMED

    others = sorted(known_runs(state()), key=lambda run: run.submitted or 0)
    newest = f"your newest job is {others[-1].job} on {others[-1].cluster or 'another cluster'}" if others else ""
    if cluster_here == UNNAMED and others:
        return f"no job is named, and nothing tells which cluster this is; {newest}"
    here = "here" if cluster_here == UNNAMED else f"on the cluster {cluster_here}"
    rest = f"; {newest}" if newest else ""
    return f"no job is named, and Muster remembers none of yours {here}{rest}"


def scheduler() -> Scheduler:
    """Return Slurm, as this process reaches it."""
    from muster.follow.scheduler import Scheduler

    return Scheduler(dict(os.environ))


def state() -> Path:
    """Return where our own records of jobs lie."""
    from pathlib import Path

    from muster.act.record import state_directory

    return state_directory(os.environ, str(Path.home()))


def cluster() -> str:
    """Return the cluster that Slurm's clients reach from here, by its name."""
    from muster.look.cluster import cluster_name

    return cluster_name(os.environ)


def sources() -> JobSources:
    """Return where jobs are looked for."""
    return JobSources(scheduler(), state(), cluster())


def ask(ids: Sequence[str]) -> Answer:
    """Return what Slurm knows of these jobs, and of those that follow them with --until-done: one request."""
    return scheduler().jobs(with_links(ids))


def answer_for(asked_id: str, slurm: Scheduler) -> Answer:
    """Return what Slurm knows of a job, and of those that follow it; of a job of Muster's the answer may be missing."""
    from muster.act.record import find_run
    from muster.follow.scheduler import Answer

    try:
        return slurm.jobs(with_links([asked_id]))
    except (SchedulerSilent, MachineLacks, NoSlurm):
        if find_run(state(), asked_id.partition("_")[0], cluster()) is None:
            raise
        return Answer((), (asked_id,), silent=True)


def cases(ids: Sequence[str], answer: Answer, *, records_do: bool = False) -> list[JobCase]:
    """Return what is known of each id. An unknown id is refused; so is silence, unless records are enough."""
    return find_cases(ids, answer, sources(), records_do=records_do)


def with_links(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids, and those of the jobs that follow them."""
    return ids_with_links(ids, sources())


def running_case(asked_id: str, found_cases: Sequence[JobCase], verb: str) -> JobCase:
    """Return the job that is meant; refused where it does not run, or is an array of which several tasks run."""
    running = [case for case in found_cases if case.job is not None and case.job.state.name == "RUNNING"]
    if len(running) == 1:
        return running[0]
    if running:
        message = f"{asked_id} is an array, and {len(running)} of its jobs run"
        raise RequestError(message, hint=f"name one: muster {verb} {running[0].shown_id}")
    waiting = [case.job for case in found_cases if case.job is not None and not case.job.state.phase.is_over]
    ending = f"does not run yet: {waiting[0].state.name}" if waiting else "has ended"
    raise SiteError(f"job {asked_id} {ending}", hint=f"muster why {asked_id}")


def only_case(asked_id: str, found_cases: Sequence[JobCase], verb: str) -> JobCase:
    """Return the one job that an id means; an array of several is refused."""
    if len(found_cases) > 1:
        message = f"{asked_id} is an array of {len(found_cases)} jobs"
        raise RequestError(message, hint=f"name one: muster {verb} {found_cases[0].shown_id}")
    return found_cases[0]
