"""What happens to a job, as values: it waits and why, it runs and where, it is over and how."""

from __future__ import annotations

import msgspec

from muster.api.result import Result
from muster.slurm.states import State


class Event(msgspec.Struct, frozen=True):
    """Something that became of a job."""

    job: str
    state: State
    """Slurm's name of the state, its phase, and a sentence."""


class Pending(Event, frozen=True):
    """It waits: at first, for another reason than before, or because it was put back into the queue."""

    reason: str
    """Slurm's word: Priority, Resources, QOSMaxJobsPerUserLimit."""

    sentence: str
    sooner: str
    """What would start it sooner."""

    expected_start: int | None = None
    """When Slurm expects it to start; seconds since 1970."""


class Running(Event, frozen=True):
    """It has its nodes."""

    nodes: tuple[str, ...]
    started: int | None = None


class Ended(Event, frozen=True):
    """It is over; the last event of all."""

    result: Result
