"""Let the ranks of running jobs save before they are cancelled, and wait for that.

RUN/cancel  left by `muster cancel --save`: the ranks are told because the job is to be cancelled
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from muster.act.record import written_object
from muster.errors import RequestError
from muster.follow.attempt_list import read_ends
from muster.follow.cases import JobCase
from muster.follow.saves import read_saves

_LOOK_S = 0.2
# The script tries for 15 seconds to find a rank that handles the signal.
_ANSWER_S = 60.0


class SavingJob(msgspec.Struct, frozen=True):
    """A running job whose ranks are told to save."""

    asked: str
    job: str
    folder: Path
    """Its run directory, or that of the task of an array."""

    before_s: int
    """What its --save-before says: so long the ranks may take."""

    told_before: int
    """How often they had been told."""

    ends_before: int

    def announce(self) -> None:
        """Leave word for the script why it is told."""
        (self.folder / "cancel").touch(mode=0o600)

    @property
    def has_ended(self) -> bool:
        """Return whether the ranks have ended since they were told."""
        return len(read_ends(self.folder)) > self.ends_before


def saving_of(case: JobCase) -> SavingJob:
    """Return what is to be told. Raise RequestError for a job whose ranks nobody can tell."""
    before_s, folder = _before(case), case.folder
    if case.job is None or folder is None or before_s is None:
        raise RequestError(
            f"job {case.asked} was not submitted with --save-before: its script cannot tell its ranks to save",
            hint=f"muster cancel {case.asked} ends it as it is",
        )
    return SavingJob(case.asked, case.job.id, folder, before_s, len(read_saves(folder)), len(read_ends(folder)))


def _before(case: JobCase) -> int | None:
    if case.run is None:
        return None
    plan = written_object(case.run.directory / "plan.json")
    save = (plan.get("finish") or {}).get("save")
    return save["before_s"] if save else None


def wait_for_save(saving: SavingJob) -> str:
    """Wait until the ranks have ended, or cannot save, or have had their time; return what came of it in words."""
    until = time.monotonic() + _ANSWER_S
    while len(saves := read_saves(saving.folder)) <= saving.told_before:
        if saving.has_ended:
            return f"job {saving.asked} has ended by itself"
        if time.monotonic() > until:
            return f"warning: the script of job {saving.asked} has not answered within {_ANSWER_S:.0f} s"
        time.sleep(_LOOK_S)
    last_save = saves[-1]
    if not last_save.told:
        return f"warning: job {saving.asked}: {last_save.sentence}"
    until = time.monotonic() + saving.before_s
    while not saving.has_ended:
        if time.monotonic() > until:
            return f"job {saving.asked}: {last_save.sentence}, and run on after {saving.before_s} s"
        time.sleep(_LOOK_S)
    return f"job {saving.asked}: {last_save.sentence}, and have ended"
