"""When the ranks of a job were told to save, as its script wrote it down.

RUN/saves   one line each time: attempt, when, why (limit, preemption, cancel, asked), how many ranks there were, how
            many handle the signal, which signal it was, and the sentence that says so (life/saves.py)
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from muster.act.record import written_lines
from muster.units import whole_number

_FIELDS = 7


class Told(msgspec.Struct, frozen=True):
    """One time that the ranks were told to save."""

    number: int
    """Of the attempt."""

    at: int
    reason: str
    ranks: int
    told: int
    signal: str
    sentence: str
    """What came of it, in words."""


def read_saves(folder: Path) -> list[Told]:
    """Return the times that a run directory tells of."""
    lines = written_lines(folder / "saves")
    return [told_save for line in lines if (told_save := _told(line.split("\t"))) is not None]


def _told(fields: list[str]) -> Told | None:
    """One line; None where it was cut."""
    if len(fields) != _FIELDS:
        return None
    number, at, ranks, told_ranks = (whole_number(fields[place]) for place in (0, 1, 3, 4))
    if number is None or at is None or ranks is None or told_ranks is None:
        return None
    return Told(number, at, fields[2], ranks, told_ranks, fields[5], fields[6])
