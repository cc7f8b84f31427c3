"""muster jobs: all of the user's jobs, over all accounts, Muster's own marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cli.asking import JobCase, as_json, cluster, ended_how, expected_start, plain, run_of, scheduler, when
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from muster.slurm.jobs import SlurmJob


def main(words: Words) -> int:
    """List the user's jobs: one request, however many they are."""
    jobs = sorted(scheduler().mine().jobs, key=_order)
    if words.json:
        own_cluster = cluster()
        print_json([as_json(JobCase(job.id, job, run_of(job.id, [job], own_cluster))) for job in jobs])
        return 0
    if not jobs:
        say("you have no jobs")
        return 0
    # One account needs no column of its own.
    accounts = len({job.account for job in jobs}) > 1
    columns = ("job", "", "name", "state", "nodes", "partition", *(["account"] if accounts else []), "what")
    print_table("your jobs", columns, [_row(job, accounts=accounts) for job in jobs])
    return 0


def _order(job: SlurmJob) -> tuple[bool, int]:
    """Return those that live before those that ended, the oldest first."""
    return job.state.phase.is_over, int(job.id)


def _row(job: SlurmJob, *, accounts: bool) -> tuple[object, ...]:
    mark = "*" if job.is_ours else ""
    return (
        job.shown_id,
        mark,
        plain(job.name),
        job.state.name,
        job.nodes if job.nodes is not None else "?",
        job.partition or "?",
        *([job.account or "?"] if accounts else []),
        _what(job),
    )


def _what(job: SlurmJob) -> str:
    """Return the one thing worth saying of a job in this state."""
    from muster.slurm.states import Phase

    phase = job.state.phase
    if phase is Phase.WAITING:
        expected = expected_start(job)
        reason = "" if job.reason.code == "None" else job.reason.code  # Slurm has not looked at it yet
        return ", ".join(part for part in (reason, f"expected to start {when(expected)}" if expected else "") if part)
    if phase is Phase.RUNNING:
        return f"since {when(job.started)} on {job.node_list or 'nodes unknown'}"
    return ", ".join(part for part in (ended_how(job), f"ended {when(job.ended)}") if part)


COMMAND = CommandLine(
    name="jobs",
    start=main,
    summary="""\
List all of your jobs that Slurm's controller remembers: those that wait, run, or ended a few minutes ago.
A * marks those that Muster made.""",
    options=(JSON,),
)
