"""How a job ended, as a value."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from muster.errors import MusterError
from muster.follow.last_words import last_words
from muster.follow.watch import Follower, JobOutput
from muster.model.failure import Failure
from muster.slurm.states import Phase, State


class TookTooLong(MusterError, TimeoutError):
    """The job was not over within the time that the caller gave it; it goes on."""

    def __init__(self, job: str, timeout_s: float) -> None:
        message = f"job {job} was not over after {timeout_s:g} s"
        super().__init__(message, "it goes on; .state() says where it is, .cancel() ends it")


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


def ended_badly(
    name: str,
    state: State,
    status: int | None,
    output: JobOutput | None,
    failure: Failure | None,
    directory: Path | None,
    row: Mapping[str, str] | None,
) -> Result:
    """Return the result of a job that failed, with the last lines of the rank that did, and a known cause."""
    from muster.follow.known_causes import explain

    lines = tuple(last_words(output, failure))
    explanation = explain(lines, failure)
    cause, remedy = (None, None) if explanation is None else (explanation.cause, explanation.remedy)
    return Result(name, state, status, failure, lines, cause, remedy, directory, row)


def output_text(output: JobOutput | None) -> str:
    """Return all that a job has written, with the rank before each line where several write."""
    if output is None:
        return ""
    return _text(line.merged() for line in Follower(output).new_lines(final=True))


def rank_text(output: JobOutput | None, rank: int) -> str:
    """Return what one rank has written; refused where the lines cannot be told from those of others."""
    if output is None:
        return ""
    output.check_rank(rank)
    return _text(line.text for line in Follower(output).new_lines(final=True, rank=rank) if line.rank == rank)


def _text(lines: Iterable[bytes]) -> str:
    return "".join(f"{line.decode(errors='replace')}\n" for line in lines)


def wait_in_thread(result: Callable[[], Result]) -> Generator[Any, None, Result]:
    """Wait for a result without holding up the other tasks of an event loop: for `await job`."""
    import asyncio

    return asyncio.to_thread(result).__await__()
