"""muster status: where a job is in its life, in words."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.cli.asked_jobs import ask, cases, ids_or_newest
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_json import as_json
from muster.cli.job_words import ended_how, other_owner, plain, row_line, when
from muster.cli.output import at_words, print_json
from muster.follow.cases import JobCase
from muster.slurm.states import Phase
from muster.units import format_walltime

if TYPE_CHECKING:
    from muster.slurm.jobs import SlurmJob


def main(words: Words) -> int:
    """Tell the state of jobs: one request, and one more where accounting has to be asked."""
    ids = ids_or_newest(words)
    found_cases = cases(ids, ask(ids))
    if words.json:
        print_json([{**as_json(case), "attempts": case.attempts_over()} for case in found_cases])
        return 0
    print(at_words("\n\n".join("\n".join(describe(case)) for case in found_cases), sys.stdout))
    return 0


def describe(case: JobCase) -> Iterator[str]:
    """Yield a job in a few lines."""
    yield headline(case)
    yield from (f"  {text}" for text in (*row_line(case), *case.earlier_runs()))
    if case.job is not None:
        yield from (f"  {name:<10} {text}" for name, text in _details(case.job) if text)
    yield from role_lines(case)
    if case.run is not None:
        gone = "" if case.run.directory.is_dir() else ", which is not there any more"
        yield f"  {'directory':<10} {case.run.directory}{gone}"


def role_lines(case: JobCase) -> Iterator[str]:
    """Yield a line for each role of a job of several programs."""
    if case.run is None:
        return
    from muster.follow.roles import stands_of

    for stand in stands_of(case.run.directory):
        yield f"  {'role':<10} {stand.name}: {stand.sentence}"


def headline(case: JobCase) -> str:
    """Return a job and its state, in one sentence."""
    job = case.job
    if job is None:
        return f"job {case.asked}{_named(case.run.name if case.run else '')}: {case.heard.sentence}"
    ending, owner = ended_how(job), other_owner(job)
    owner_words = f" of {owner}" if owner else ""
    return (
        f"job {job.shown_id}{_named(job.name)}{owner_words} is {job.state.name}: "
        f"{job.state.sentence}{f' ({ending})' if ending else ''}"
    )


def _named(name: str) -> str:
    """Return a job's name in brackets; nothing where it has none, or none is known."""
    return f" ({plain(name)})" if name else ""


def _details(job: SlurmJob) -> Iterator[tuple[str, str]]:
    waiting = job.state.phase is Phase.WAITING
    nodes = f"{job.nodes} node{'s' * (job.nodes != 1)}" if job.nodes is not None else ""
    yield "nodes", " on ".join(part for part in (nodes, job.node_list or "") if part)
    yield "queue", ", ".join(part for part in (job.partition, job.account, job.qos) if part)
    yield "limit", "" if job.time_limit_s is None else format_walltime(job.time_limit_s) + _left(job)
    yield "submitted", when(job.submitted) if job.submitted else ""
    if waiting:
        yield "reason", f"{job.reason.code}: {job.reason.sentence}"
        yield "expected", f"to start {when(job.expected_start)}" if job.expected_start else ""
        return
    yield "started", when(job.started) if job.started and job.node_list else ""
    if job.ended and job.state.phase.is_over:
        has_run = job.started is not None and job.node_list and job.ended >= job.started
        yield (
            "ended",
            when(job.ended) + (f", after {format_walltime(job.ended - (job.started or 0))}" if has_run else ""),
        )


def _left(job: SlurmJob) -> str:
    """Return what is left of a running job's time."""
    if job.state.phase is not Phase.RUNNING or job.started is None or job.time_limit_s is None:
        return ""
    left_s = int(job.started + job.time_limit_s - time.time())
    return f", {format_walltime(left_s)} left" if left_s > 0 else ", which is over"


COMMAND = CommandLine(
    name="status",
    start=main,
    summary="""\
Say where jobs are in their life. `muster why JOB` says why, `muster logs JOB` shows the output.""",
    options=(JSON,),
    operands="[JOB…]",
    most=None,
    hint="muster jobs lists yours",
)
