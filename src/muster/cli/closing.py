"""What `muster run` says while it waits for nodes, and at its end: who failed first, where, how, and a known cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from muster.cli.output import leave, say

if TYPE_CHECKING:
    from muster.act.keep import Kept
    from muster.act.supervise import Outcome
    from muster.model.failure import Failure
    from muster.model.plan import Plan
    from muster.slurm.jobs import SlurmJob

_LINES = 15
_INTERRUPTED = 128 + 2
# What the script says before it stops: the error and its hint stand in the output already.
_STOPPED = r"(?m)^muster: error: "
# salloc's own status stays that of the script.
_HELD = r"(?m)^salloc: error: Unable to clean up job allocation (?P<job>\d+)"


def _asked(job: str) -> SlurmJob | None:
    """Return what Slurm says of a job; None where it does not know it, or does not answer soon."""
    from msgspec.structs import replace

    from muster.cli.asked_jobs import scheduler
    from muster.errors import MusterError

    try:
        return next(iter(replace(scheduler(), timeout_s=5.0).jobs([job]).jobs), None)
    except MusterError:
        return None


def wait_words(job: str) -> str:
    """Return why a job waits and when Slurm expects it to start, in one sentence; empty if it is not known."""
    from muster.cli.job_words import words_of_waiting
    from muster.slurm.states import Phase

    asked = _asked(job)
    words = words_of_waiting(asked) if asked else ""
    if asked and not words and asked.state.phase is Phase.WAITING:
        words = f"job {job} is queued; Slurm has not looked at it yet"
    return f"{words}. Ctrl-C withdraws it" if words else ""


def close(plan: Plan, kept_job: Kept, *, quiet: bool) -> NoReturn:
    """Say what happened, and leave with its status."""
    leave(_closed(plan, kept_job, quiet=quiet))


def say_end_here(plan: Plan, outcome: Outcome, *, quiet: bool) -> None:
    """Say what is to be known of how the ranks of this machine ended."""
    if outcome.first_failed is not None:
        say_of_rank(plan, outcome, quiet=quiet)
    if outcome.unmet is not None:
        _say_alone(plan, outcome.unmet)


def _say_alone(plan: Plan, address: str) -> None:
    """Say of ranks of this machine what rank 0's shell says elsewhere (render/shell/rank/look.sh)."""
    say(
        f"warning: the {plan.shape.ntasks} ranks have ended, and Muster saw no connection to {address}: each may "
        "have done the whole work alone, and overwritten what the others wrote\n\nhint: the script has to join its "
        "ranks: torch.distributed.init_process_group(), with muster.world(), or what its framework has for it; "
        "--wireup dummy, if each is to work for itself"
    )


def say_of_rank(plan: Plan, outcome: Outcome, *, quiet: bool) -> None:
    """Say which rank of this machine failed first, how, and what its last lines or its status tell to do."""
    from muster.model.failure import exit_words

    status = outcome.status
    signal_words = f" ({exit_words(status)})" if status > 128 else ""
    if plan.shape.ntasks > 1:
        words = f"rank {outcome.first_failed} ended with status {status}{signal_words}; the others were ended"
        say(words, quiet=quiet)
    if not quiet:
        _say_known(outcome.last_errors.splitlines(), None, status)


def _closed(plan: Plan, kept_job: Kept, *, quiet: bool) -> int:
    from muster.cli.app import print_error

    held_allocation = re.search(_HELD, kept_job.report) if kept_job.report else None
    if held_allocation is not None:
        job = held_allocation["job"]
        words = f"warning: job {job} keeps its nodes until its time limit: Slurm's controller did not answer"
        say(f"{words}\n\nhint: muster cancel {job}, once scontrol ping says that a controller answers")
    if kept_job.unwritten is not None:
        print_error(
            f"the output cannot be written: {kept_job.unwritten}; the ranks were ended",
            "make room there, or write elsewhere; >/dev/null takes everything",
        )
        return kept_job.status
    if kept_job.signal is not None:
        say(_of_signal(kept_job), quiet=quiet)
        return kept_job.status
    if kept_job.status in {0, 128 + 13}:
        return kept_job.status
    from muster.follow.first_failure import failure_in

    failure = failure_in(kept_job.report, plan.launcher)
    if kept_job.status == _INTERRUPTED and (failure is None or failure.status != _INTERRUPTED):
        # The terminal told the ranks themselves; which of them ended first does not matter.
        say(f"ended by Ctrl-C{_job(kept_job)}", quiet=quiet)
        return kept_job.status
    if failure is None and re.search(_STOPPED, kept_job.report):
        say(f"the script stopped by itself, for the reason above{_job(kept_job)}", quiet=quiet)
    else:
        say(_sentence(kept_job, failure), quiet=quiet)
        if not quiet:
            rank = f"{failure.tasks[0]}: " if failure is not None and failure.tasks else ""
            lines = [line.removeprefix(rank) for line in kept_job.report.splitlines() if line.startswith(rank)]
            _say_known(lines, failure, None if failure is None else failure.status)
    if kept_job.job is not None:
        _remember(plan, kept_job)
    return kept_job.status


def _of_signal(kept_job: Kept) -> str:
    signal_name = {2: "Ctrl-C", 1: "a hang-up"}.get(kept_job.signal or 0, "SIGTERM")
    if not kept_job.started:
        job = f": job {kept_job.job} is withdrawn" if kept_job.job else ""
        return f"ended by {signal_name} before there were nodes{job}"
    return f"ended by {signal_name}{_job(kept_job)}"


def _job(kept_job: Kept) -> str:
    return "" if kept_job.job is None else f" (job {kept_job.job})"


def _sentence(kept_job: Kept, failure: Failure | None) -> str:
    # The end of the step, which only followed, may be all that is told: no rank was killed.
    no_rank_was = failure is None or not (failure.tasks or failure.host) or failure.status not in {None, 128 + 9}
    if kept_job.killed or (no_rank_was and kept_job.status == 128 + 9):
        return f"the job's script was ended by SIGKILL on this host, and its ranks with it{_job(kept_job)}"
    if failure is not None:
        return f"first: {failure.sentence}{_job(kept_job)}"
    ended = _slurm_says(kept_job.job)
    if ended:
        return ended
    return f"it ended with status {kept_job.status}, and no launcher says which rank was the first{_job(kept_job)}"


def _slurm_says(job: str | None) -> str:
    """Return the sentence of a job that Slurm itself has ended.

    At its time limit, for a failed node, for another job.
    """
    from muster.cli.status import headline
    from muster.follow.cases import JobCase
    from muster.slurm.states import Phase

    asked = None if job is None else _asked(job)
    if job is None or asked is None or asked.state.phase is not Phase.ENDED_BADLY or asked.state.name == "FAILED":
        return ""
    return headline(JobCase(job, asked, None))


def _say_known(lines: list[str], failure: Failure | None, status: int | None) -> None:
    """Print the known error in the last lines of the rank that failed first; else what its status tells to do."""
    from muster.follow.known_causes import explain
    from muster.model.failure import hint_of_status

    explanation = explain(lines[-_LINES:], failure)
    if explanation is not None:
        say(f"known: {explanation.cause}")
    hint = hint_of_status(status) if explanation is None else explanation.remedy
    if hint is not None:
        say(f"hint: {hint}")


def _remember(plan: Plan, kept_job: Kept) -> None:
    """Keep the end of what was said, so that `logs` and `why` know this run too: no run directory holds its output."""
    from pathlib import Path

    from muster.act.record import Run, make_run_directory, register
    from muster.cli.asked_jobs import cluster, state
    from muster.errors import MusterError
    from muster.model.digest import digest_of
    from muster.render.document import plan_as_json

    def fill(folder: Path) -> None:
        (folder / "logs" / "ranks.log").write_bytes(kept_job.output.encode() + kept_job.report.encode())

    try:
        folder = make_run_directory(state() / "runs", plan.job_name, {"plan.json": plan_as_json(plan)}, fill=fill)
        run = Run(
            job=str(kept_job.job),
            directory=folder,
            name=plan.job_name,
            cluster=cluster(),
            submitted=int(kept_job.began),
            digest=digest_of(plan),
            moved=True,  # Slurm names no file of an interactive job's that could show whose entry this is
        )
        register(state(), run)
    except (OSError, MusterError):
        return
