"""How a job ended, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from muster.model.failure import Failure
from muster.slurm.states import Phase, State


class Result(msgspec.Struct, frozen=True):
    """How a job ended."""

    job: str
    """Its id; of an array, that of the task that tells the most."""

    state: State
    status: int | None
    """Its exit status, 128 + n for signal n; None: it never ran, or Slurm does not know it any more."""

    failure: Failure | None = None
    """What went wrong first, as `muster why` says it; None: it ended well, or nothing tells."""

    last_lines: tuple[str, ...] = ()
    """What the rank that failed first wrote last."""

    known_cause: str | None = None
    """The known error behind these lines."""

    remedy: str | None = None
    directory: Path | None = None
    row: Mapping[str, str] | None = None
    """Of a task of a sweep: the values of its row, by their columns."""

    @property
    def ok(self) -> bool:
        """Return whether it ended well."""
        return self.state.phase is Phase.ENDED_WELL

    @property
    def rank(self) -> int | None:
        """Return the rank that failed first."""
        return self.failure.tasks[0] if self.failure is not None and self.failure.tasks else None

    @property
    def host(self) -> str | None:
        """Return the host where it failed first."""
        return None if self.failure is None else self.failure.host

    @property
    def cause(self) -> str | None:
        """Return why it ended badly, in one sentence; None where it ended well."""
        if self.ok:
            return None
        return self.failure.sentence if self.failure is not None else self.state.sentence
