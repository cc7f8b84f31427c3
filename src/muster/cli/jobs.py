"""muster jobs: all of the user's jobs, over all accounts, Muster's own marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.asked_jobs import scheduler, sources
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_json import as_json
from muster.cli.job_words import ended_how, plain, when
from muster.cli.output import print_json, print_table, say
from muster.follow.cases import JobCase, run_of
from muster.slurm.states import Phase

if TYPE_CHECKING:
    from muster.slurm.jobs import SlurmJob


def main(words: Words) -> int:
    """List the user's jobs: one request, however many they are."""
    jobs = sorted(scheduler().mine().jobs, key=_order)
    if words.json:
        place = sources()
        print_json([as_json(JobCase(job.id, job, run_of(job.id, [job], place))) for job in jobs])
        return 0
    if not jobs:
        say("you have no jobs")
        return 0
    # One account needs no column of its own.
    accounts = len({job.account for job in jobs}) > 1
    links = _links_among(jobs)
    columns = ("job", "", "name", "state", "nodes", "partition", *(["account"] if accounts else []), "what")
    print_table("your jobs", columns, [_row(job, links.get(job.id), accounts=accounts) for job in jobs])
    return 0


def _order(job: SlurmJob) -> tuple[bool, int, int]:
    """Return those that live before those that ended, the oldest first, tasks and parts (5+0) by their number."""
    array, _, task = job.shown_id.replace("+", "_").partition("_")
    return job.state.phase.is_over, int(array), int(task) if task.isdigit() else 0


def _links_among(jobs: Sequence[SlurmJob]) -> dict[str, str]:
    """Return, by id, "link 2 of job 57" for each job that goes on with an earlier one (--until-done).

    The links of a job have one comment: where it stands alone, no file is read.
    """
    from muster.follow.links import link_of

    how_often = Counter(job.comment for job in jobs if job.is_ours)
    return {
        job.id: f"link {link.number} of job {first.job}"
        for job in jobs
        if how_often[job.comment] > 1 and job.stdout is not None
        for first, link in link_of(Path(job.stdout).parent.parent, job)
    }


def _row(job: SlurmJob, link: str | None, *, accounts: bool) -> tuple[object, ...]:
    return (
        job.shown_id,
        "*" if job.is_ours else "",
        plain(job.name),
        job.state.name,
        job.nodes if job.nodes is not None else "?",
        job.partition or "?",
        *([job.account or "?"] if accounts else []),
        ": ".join(part for part in (link, _what(job)) if part),
    )


def _what(job: SlurmJob) -> str:
    """Return the one thing worth saying of a job in this state."""
    phase = job.state.phase
    if phase is Phase.WAITING:
        expected = job.expected_start
        reason = "" if job.reason.code == "None" else job.reason.code  # Slurm has not looked at it yet
        return ", ".join(part for part in (reason, f"expected to start {when(expected)}" if expected else "") if part)
    if phase is Phase.RUNNING:
        return f"since {when(job.started)} on {job.node_list or 'nodes unknown'}"
    if not phase.is_over:
        return ""  # a state that Muster does not know
    how = ended_how(job).removeprefix("ended ")
    return f"ended {when(job.ended)}{f': {how}' if how else ''}"


COMMAND = CommandLine(
    name="jobs",
    start=main,
    summary="""\
List all of your jobs that Slurm's controller remembers: those that wait, run, or ended a few minutes ago.
A * marks those that Muster made.""",
    options=(JSON,),
)
