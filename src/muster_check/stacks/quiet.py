"""Wait until a job has written nothing for long. It waits beside the ranks, so it imports hardly anything."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import NamedTuple, Optional

from muster.follow.hang_report import HANG_REPORT

OUTPUT = "output"
"""In the run directory: where all output goes, in a job that `muster submit` did not queue."""

_LONGEST_PAUSE_S = 10
_LONGEST_CHECK = 5


class Standstill(NamedTuple):
    """No rank was seen to go on."""

    sentence: str = ""
    """Empty where it is not judged yet."""

    ends_after_s: float = inf
    """For how long that has to be so until the attempt may be ended."""


Look = Callable[[bool, int, int], Optional[Standstill]]
"""Looks at the ranks, beside output that still comes or not, for the first time (0) or again, after so many seconds of
standing; None: a rank goes on."""


class _Track:
    """The looks of one kind: at a job that is silent, or at one that writes all the time."""

    def __init__(self, *, beside_output: bool) -> None:
        self.beside_output = beside_output
        self.begin()

    def begin(self) -> None:
        self.looks, self.stood_s, self.ends_after_s = 0, 0.0, inf

    def due_s(self, after_s: int) -> float:
        """Return when to look: at half of the time and at its end; later where lines still come; then to end it."""
        return self.ends_after_s if self.looks == 2 else after_s * (self.looks + 1 + self.beside_output) / 2


class QuietWatch:
    """The watch of one job: after half of the time its ranks are looked at, and once more at the end of it.

    Where they may still go on by themselves, they are looked at again when the attempt may be ended for that.
    """

    def __init__(
        self, directory: Path, after_s: int, look: Look, clock: Callable[[], float], *, ends: bool = True
    ) -> None:
        """Make the watch; without `ends` nothing becomes of a hang but its report."""
        self.pause_s = min(after_s // 20 + 1, _LONGEST_PAUSE_S)
        self._directory, self._after_s, self._look, self._clock, self._ends = directory, after_s, look, clock, ends
        self._silent, self._beside = _Track(beside_output=False), _Track(beside_output=True)
        self._forget_report()
        self._before, self._checked_at, self._silent_s = self._sizes(), clock(), inf

    def check(self) -> str | None:
        """Look at the logs, and at the ranks where it is time; return the hang for which the attempt may be ended."""
        now = self._clock()
        # A host that was suspended did not see the time in between.
        passed_s = min(now - self._checked_at, _LONGEST_CHECK * self.pause_s)
        self._checked_at = now
        sizes = self._sizes()
        has_grown, self._before = sizes != self._before, sizes
        self._silent_s = 0.0 if has_grown else self._silent_s + passed_s
        return self._follow(self._silent, passed_s, begins=has_grown) or self._follow(
            self._beside, passed_s, begins=self._silent_s >= self._after_s / 2
        )

    def _follow(self, track: _Track, passed_s: float, *, begins: bool) -> str | None:
        if begins:
            self._begin(track)
            return None
        track.stood_s += passed_s
        if track.stood_s < track.due_s(self._after_s) or (track.looks == 2 and not self._ends):
            return None
        standstill = self._look(track.beside_output, track.looks, int(max(track.stood_s, self._after_s)))
        self._before = self._sizes()  # a report in the log is not a sign of life
        self._checked_at = self._clock()
        if standstill is None:
            self._begin(track)
            return None
        track.looks = min(track.looks + 1, 2)
        track.ends_after_s = standstill.ends_after_s
        return standstill.sentence if standstill.sentence and track.stood_s >= standstill.ends_after_s else None

    def _begin(self, track: _Track) -> None:
        """Begin again: a rank went on."""
        if track.looks == 2:
            self._forget_report()
        track.begin()

    def _sizes(self) -> tuple[int, ...]:
        logs = (*sorted(self._directory.glob("logs/*.log")), *self._output())
        return tuple(path.stat().st_size for path in logs)

    def _output(self) -> tuple[Path, ...]:
        """Return the file that a job writes to which `muster submit` did not queue: its script names it."""
        try:
            path = Path((self._directory / OUTPUT).read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n"))
        except OSError:
            return ()
        return (path,) if path.is_file() else ()

    def _forget_report(self) -> None:
        (self._directory / HANG_REPORT).unlink(missing_ok=True)
