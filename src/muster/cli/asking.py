"""What the verbs about jobs share: their words, the jobs that are meant, and jobs as words and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muster.follow.cases import JobCase, JobSources, find_cases, ids_with_links
from muster.follow.cases import run_of as find_run_of

if TYPE_CHECKING:  # a page of help needs none of these
    from pathlib import Path

    from muster.act.record import Run
    from muster.cli.command_line import Words
    from muster.follow.scheduler import Answer, Scheduler
    from muster.slurm.jobs import SlurmJob


# The keys of a job in every --json, in their order.
JSON_KEYS = (
    *("job", "shown_id", "name", "state", "phase", "reason", "exit_code", "signal", "user", "partition", "account"),
    *("qos", "nodes", "cpus", "node_list", "time_limit_s", "submitted", "started", "expected_start", "ended"),
    *("ours", "directory", "row"),
)


def job_ids(words: Words) -> tuple[str, ...]:
    """Return the job ids that were typed, each once."""
    from muster.slurm.jobs import parse_job_id

    return tuple(dict.fromkeys(parse_job_id(word) for word in words.operands))


def ids_or_newest(words: Words) -> tuple[str, ...]:
    """Return the job ids that were typed; without any, the job of Muster's that was queued last, which is named."""
    from muster.act.record import recent_runs
    from muster.cli.output import say
    from muster.errors import RequestError

    if words.operands:
        return job_ids(words)
    newest = next(recent_runs(state(), cluster(), since=0, most=1), None)
    if newest is None:
        raise RequestError(_of_no_run(cluster()), hint="muster jobs lists yours; name the job that you mean")
    say(f"your newest job is {newest.job} ({plain(newest.name)})", quiet=getattr(words, "json", False))
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

    return state_directory(os.environ, os.environ.get("HOME") or str(Path.home()))


def cases(ids: Sequence[str], answer: Answer, *, records_do: bool = False) -> list[JobCase]:
    """Return what is known of each id. An unknown id is refused; so is silence, unless records are enough."""
    return find_cases(ids, answer, JobSources(scheduler(), state(), cluster()), records_do=records_do)


def ask(ids: Sequence[str]) -> Answer:
    """Return what Slurm knows of these jobs, and of those that follow them with --until-done: one request."""
    return scheduler().jobs(with_links(ids))


def running_case(asked_id: str, found_cases: Sequence[JobCase], verb: str) -> JobCase:
    """Return the job that is meant; refused where it does not run, or is an array of which several tasks run."""
    from muster.errors import RequestError, SiteError

    running = [case for case in found_cases if case.job is not None and case.job.state.name == "RUNNING"]
    if len(running) == 1:
        return running[0]
    if running:
        message = f"{asked_id} is an array, and {len(running)} of its jobs run"
        raise RequestError(message, hint=f"name one: muster {verb} {shown_id_of(running[0])}")
    waiting = [case.job for case in found_cases if case.job is not None and not case.job.state.phase.is_over]
    ending = f"does not run yet: {waiting[0].state.name}" if waiting else "has ended"
    raise SiteError(f"job {asked_id} {ending}", hint=f"muster why {asked_id}")


def only_case(asked_id: str, found_cases: Sequence[JobCase], verb: str) -> JobCase:
    """Return the one job that an id means; an array of several is refused."""
    from muster.errors import RequestError

    if len(found_cases) > 1:
        message = f"{asked_id} is an array of {len(found_cases)} jobs"
        raise RequestError(message, hint=f"name one: muster {verb} {shown_id_of(found_cases[0])}")
    return found_cases[0]


def shown_id_of(case: JobCase) -> str:
    """Return a job's id as squeue shows it, 57_3; as it was asked for where Slurm does not know the job."""
    return case.job.shown_id if case.job is not None else case.asked


def id_to_type(case: JobCase) -> str:
    """Return the id that means this job alone: of an array, that of its task."""
    shown_id = shown_id_of(case)
    return shown_id if "_" in shown_id and "_" not in case.asked else case.asked


def attempt_of(case: JobCase) -> int:
    """Return which attempt of a job the newest is, from 1 on."""
    from muster.follow.attempt_list import read_attempts

    folder = _folder_of(case)
    attempts = [] if folder is None else read_attempts(folder)
    return max((attempt.number for attempt in attempts), default=1)


def reported_hang(case: JobCase) -> list[str]:
    """Return what the job's own watcher has found, if it has."""
    from muster.follow.hang_report import HANG_REPORT

    folder = _folder_of(case)
    try:
        return [] if folder is None else (folder / HANG_REPORT).read_text("utf-8", errors="replace").splitlines()[-1:]
    except OSError:
        return []


def _folder_of(case: JobCase) -> Path | None:
    """Return where a job, or one task of an array, keeps its attempts and what its watcher has found."""
    from muster.follow.attempt_list import folder_of

    return None if case.run is None else folder_of(case.run, _array_task(case))


def with_links(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids, and those of the jobs that follow them."""
    return ids_with_links(ids, JobSources(scheduler(), state(), cluster()))


def cluster() -> str:
    """Return the cluster that Slurm's clients reach from here, by its name."""
    from muster.look.cluster import cluster_name

    return cluster_name(os.environ)


def run_of(asked_id: str, jobs: Sequence[SlurmJob], cluster_name: str, *, is_silent: bool = False) -> Run | None:
    """Return Muster's record of a job; not that of another cluster's job with the same number."""
    return find_run_of(asked_id, jobs, JobSources(scheduler(), state(), cluster_name), is_silent=is_silent)


def _task_of(case: JobCase) -> str:
    """Return the task of an array that a case is about; empty: there is none."""
    return (case.job.shown_id if case.job else case.asked).partition("_")[2]


def _array_task(case: JobCase) -> str | None:
    """Return the one task of an array that a case is about; None: no single one is."""
    task = _task_of(case)
    return task if task.isdigit() else None


def row_of(case: JobCase) -> dict[str, str] | None:
    """Return the row of the sweep that a task has."""
    from muster.follow.row import row_of_task

    return row_of_task(case.run, _task_of(case)) if case.run is not None else None


def row_line(case: JobCase) -> list[str]:
    """Return the line that says which row of the sweep a task has, if there is one."""
    from muster.follow.row import row_in_words

    row = row_of(case)
    return [] if row is None else [f"row {_task_of(case)}: {row_in_words(row)}"]


def earlier_runs(case: JobCase) -> list[str]:
    """Return which run of a requeued job this is, and how those before it ended: a sentence each."""
    from muster.follow.attempts import ends_of_earlier
    from muster.slurm.states import Phase

    if case.run is None:
        return []
    waits = case.job is not None and case.job.state.phase is Phase.WAITING
    link = [f"link {case.link} of at most {case.run.links}"] if case.link else []
    return [*link, *ends_of_earlier(case.run, _array_task(case), waits=waits)]


def attempts_as_json(case: JobCase) -> list[dict[str, Any]]:
    """Return the attempts of a job of Muster's that are over, if the job may run again, in their order."""
    from muster.follow.attempts import attempts_over
    from muster.slurm.states import Phase

    if case.run is None:
        return []
    waits = case.job is not None and case.job.state.phase is Phase.WAITING
    return attempts_over(case.run, _array_task(case), waits=waits)


def as_json(case: JobCase) -> dict[str, Any]:
    """Return a job with stable keys; what is not known is null. Times are ISO 8601 in UTC."""
    from muster.slurm.states import Phase

    job = case.job
    own_fields = {
        "ours": case.run is not None or bool(job and job.is_ours),
        "directory": None if case.run is None else str(case.run.directory),
        "row": row_of(case),
    }
    if job is None:
        name = case.run.name if case.run else None
        fields = {"job": case.asked, "name": name, "state": "UNKNOWN", "phase": case.phase.value}
        return {**dict.fromkeys(JSON_KEYS), **fields, **own_fields}
    return {
        "job": job.id,
        "shown_id": job.shown_id,
        "name": job.name,
        "state": job.state.name,
        "phase": job.state.phase.value,
        "reason": None if job.reason.code == "None" else job.reason.code,
        "exit_code": job.exit_code if job.state.phase.is_over else None,
        "signal": (job.signal or None) if job.state.phase.is_over else None,
        "user": job.user,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "nodes": job.nodes,
        "cpus": job.cpus,
        "node_list": job.node_list,
        "time_limit_s": job.time_limit_s,
        "submitted": _iso(job.submitted),
        "started": None if job.state.phase is Phase.WAITING else _iso(job.started),
        "expected_start": _iso(expected_start(job)),
        "ended": _iso(job.ended) if job.state.phase.is_over else None,
        **own_fields,
    }


def expected_start(job: SlurmJob) -> int | None:
    """Return when Slurm expects a waiting job to start; None where Slurm does not say."""
    from muster.slurm.states import Phase

    return job.started if job.state.phase is Phase.WAITING else None


def words_of_waiting(job: SlurmJob) -> str:
    """Return why a job waits and when Slurm expects it to start; empty where it does not, or no reason is known."""
    from muster.slurm.states import Phase

    if job.state.phase is not Phase.WAITING or job.reason.code == "None":
        return ""
    expected = expected_start(job)
    start = f"expected to start {when(expected)}" if expected else "Slurm has not yet estimated when it starts"
    return f"job {job.shown_id} waits for its nodes: {job.reason.code}: {job.reason.sentence}; {start}"


def ended_how(job: SlurmJob) -> str:
    """Return the exit status or signal of a job that is over, in words; empty where there is none to tell.

    A job that never had a node may have one too (signal 1 with BadConstraints), which no process ever gave.
    """
    from muster.model.failure import exit_words

    return exit_words(job.status) if job.state.phase.is_over and job.status and job.node_list else ""


def other_owner(job: SlurmJob) -> str:
    """Return the owner of a job of somebody else; an empty text for a job of one's own."""
    import pwd

    try:
        own_name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user whom this machine does not list
        own_name = os.environ.get("USER", "")
    return "" if job.user in {None, "", own_name} else plain(str(job.user))


def when(seconds: int | None) -> str:
    """Return a time as the reader's clock shows it."""
    if seconds is None:
        return "unknown"
    import datetime as dt

    return dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def plain(text: str) -> str:
    """Return a name that somebody typed, harmless on a terminal: what is not printed stands escaped."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _iso(seconds: int | None) -> str | None:
    import datetime as dt

    return None if seconds is None else dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).isoformat()
