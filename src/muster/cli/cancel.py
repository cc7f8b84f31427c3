"""muster cancel: end jobs, and say which could not be ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli.asked_jobs import ask, cases, job_ids, scheduler
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_words import other_owner
from muster.cli.output import print_json, say
from muster.errors import CommandFailed, RequestError, SiteError
from muster.follow.cases import JobCase
from muster.follow.packs import job_of_row, neighbours_of
from muster.job.option import option

if TYPE_CHECKING:
    from muster.follow.scheduler import Scheduler


def main(words: Words) -> int:
    """Cancel the jobs that are known; an unknown id is told at the end, and the status says so."""
    from muster.follow.cancel import cancel_cases

    ids = job_ids(words)
    slurm = scheduler()
    # scancel says nothing of an id that is none: ask first.
    found_cases, refused = _find(ids)
    # Of an array, some may be over while others live.
    living = [job_id for job_id in ids if any(case.asked == job_id and _lives(case) for case in found_cases)]
    ended_ids = [job_id for job_id in ids if job_id not in living and job_id not in refused]
    owners = {case.asked: owner for case in found_cases if case.job and (owner := other_owner(case.job))}
    quiet = words.json
    for shown_id in ended_ids:
        say(f"job {shown_id} is over already", quiet=quiet)
    own_ids = [job_id for job_id in living if job_id not in owners]
    if words.save:
        _save([case for case in found_cases if case.asked in own_ids and _lives(case)], slurm, quiet=quiet)
    if own_ids:  # before what may be refused
        cancel_cases([case for case in found_cases if case.asked in own_ids], slurm)
        for shown_id in own_ids:
            say(f"job {shown_id} is cancelled", quiet=quiet)
    for shown_id in living:
        if shown_id in owners:
            _cancel_anothers(slurm, shown_id, owners[shown_id])
            say(f"job {shown_id} of {owners[shown_id]} is cancelled", quiet=quiet)
    if quiet:
        print_json({"cancelled": living, "over": ended_ids, "refused": [*refused]})
    if refused:
        first = next(iter(refused.values()))
        raise RequestError("; ".join(error.message for error in refused.values()), hint=first.hint)
    return 0


def _find(ids: Sequence[str]) -> tuple[list[JobCase], dict[str, RequestError]]:
    """Return what is known of the jobs, and by its id why one cannot be cancelled: the others are, all the same."""
    answer = ask(ids)
    found_cases: list[JobCase] = []
    refused: dict[str, RequestError] = {}
    for job_id in ids:
        try:
            cases_of_job = cases([job_id], answer)
            for case in cases_of_job:
                _refuse_row_of_many(case)
        except RequestError as error:
            refused[job_id] = error
        else:
            found_cases += cases_of_job
    return found_cases, refused


def _refuse_row_of_many(case: JobCase) -> None:
    """Refuse to cancel one row of several that share a job: Slurm ends all of them or none."""
    array, _, row = case.asked.partition("_")
    if case.run is not None and case.run.rows_per_job > 1 and row.isdigit():
        rows = neighbours_of(int(row), case.run)
        raise RequestError(
            f"row {row} shares its job with the rows {rows.start} to {rows.stop - 1}: it cannot be cancelled alone",
            hint=f"scancel {job_of_row(case.asked, case.run)} ends these rows, muster cancel {array} all of the table",
        )


def _save(found_cases: Sequence[JobCase], slurm: Scheduler, *, quiet: bool) -> None:
    """Tell the ranks of these jobs to save, all at once, and wait for each; nothing is told unless all can be."""
    from muster.follow.save import SavingJob, saving_of, wait_for_save

    savings: list[SavingJob] = []
    for case in found_cases:
        if case.job is not None and case.job.state.name == "RUNNING":
            savings.append(saving_of(case))
        else:
            say(f"job {case.asked} does not run: there is nothing to save", quiet=quiet)
    for saving in savings:
        saving.announce()
        slurm.tell_script(saving.job)
    for saving in savings:
        say(wait_for_save(saving), quiet=quiet)


def _cancel_anothers(slurm: Scheduler, job_id: str, owner: str) -> None:
    """Cancel a job of somebody else: the cluster's operators may."""
    try:
        slurm.cancel([job_id])
    except CommandFailed as failure:
        raise SiteError(
            f"job {job_id} is {owner}'s, and Slurm does not let you cancel it",
            hint="only its owner and the cluster's operators can; muster jobs lists your own jobs",
        ) from failure


def _lives(case: JobCase) -> bool:
    return case.job is not None and not case.job.state.phase.is_over


COMMAND = CommandLine(
    name="cancel",
    start=main,
    summary="""\
End jobs that wait or run. A job that is over stays as it is. The others are ended too if one id is unknown.""",
    options=(
        option(
            "--save",
            "ask the ranks to save first, and wait until they have ended, at most as long as their --save-before",
        ),
        JSON,
    ),
    operands="JOB…",
    least=1,
    most=None,
    hint="muster jobs lists yours",
)
