"""Wait until a job has written nothing for long. It waits beside the ranks, so it imports hardly anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from muster.follow.hang_report import HANG_REPORT

OUTPUT = "output"
"""In the run directory: where all output goes, in a job that `muster submit` did not queue."""

_LONGEST_PAUSE_S = 10

Look = Callable[[bool], Optional[str]]
"""Looks at the ranks, for the second time or the first; None: a rank goes on. Else the hang, once it is certain."""


class QuietWatch:
    """The watch of one job: after half of the time its ranks are looked at, and once more at the end of it."""

    def __init__(self, directory: Path, after_s: int, look: Look, clock: Callable[[], float]) -> None:
        self.pause_s = min(after_s // 20 + 1, _LONGEST_PAUSE_S)
        self._directory, self._after_s, self._look, self._clock = directory, after_s, look, clock
        self._looks = 0
        self._forget_report()
        self._before, self._since = self._sizes(), clock()

    def check(self) -> str | None:
        """Look at the logs, and at the ranks where the logs have not grown for long; return a hang that is new."""
        if self._sizes() != self._before:
            self._note()
            if self._looks:
                self._looks = 0
                self._forget_report()
            return None
        if self._looks == 2 or self._clock() - self._since < self._after_s * (self._looks + 1) / 2:
            return None
        hang = self._look(self._looks == 1)
        if hang is None:
            self._looks = 0
            self._note()
            return None
        self._looks += 1
        self._before = self._sizes()  # a report in the log is not a sign of life
        return hang or None

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

    def _note(self) -> None:
        self._before, self._since = self._sizes(), self._clock()

    def _forget_report(self) -> None:
        (self._directory / HANG_REPORT).unlink(missing_ok=True)
