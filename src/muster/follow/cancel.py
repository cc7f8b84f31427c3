"""How jobs are ended: with each the links that follow it, and the secrets that it will not read any more."""

from __future__ import annotations

from collections.abc import Sequence

from muster.act.clean import remove_passed
from muster.follow.cases import JobCase
from muster.follow.links import close_chain
from muster.follow.scheduler import Scheduler


def cancel_cases(cases: Sequence[JobCase], slurm: Scheduler) -> None:
    """Cancel jobs of this user's, all in one request."""
    slurm.cancel(tuple(dict.fromkeys(job for case in cases for job in (case.asked, *case.links))))
    for case in cases:
        # A link that a job queued at this very moment finds that there is nothing to do.
        if case.link and case.run is not None:
            close_chain(case.run, case.task or "", f"job {case.asked} was cancelled")
        # A job that has not begun will never read its secrets.
        if case.run is not None and "_" not in case.asked:
            remove_passed(case.run)
