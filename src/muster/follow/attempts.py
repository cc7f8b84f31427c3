"""The attempts of a job whose ranks ran again: because Slurm put it back into the queue, or started in its allocation.

RUN/attempts                one line each: number, when it began, its nodes, those of the one before that were lost
RUN/ends                    one line for each that ended: number, when it began and ended, status, rank, host, decision,
                            first cause, and what was done, in words
RUN/logs/                   the first run's logs
RUN/logs/attempt-N/         those of run N, from the second on
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from muster.act.record import Run
from muster.follow.first_failure import first_failure
from muster.follow.watch import output_of_run
from muster.units import whole_number

__all__ = ["Attempt", "End", "ends_of_earlier", "folder_of", "read_attempts", "read_ends"]

_FIELDS = 9


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job."""

    number: int
    nodes: str
    lost_before: tuple[str, ...]
    """Nodes of the run before that were down when this one began."""

    began: int | None = None


class End(msgspec.Struct, frozen=True):
    """How one attempt ended, as the job itself wrote it down."""

    number: int
    began: int
    ended: int
    status: int
    rank: int | None
    host: str | None
    decision: str
    """again; end: not again; done: it ended well."""

    cause: str
    done: str
    """What was done, in words."""

    @property
    def sentence(self) -> str:
        """The end in words."""
        return "it ended well" if self.decision == "done" else f"{self.cause}; {self.done}"

    def as_json(self) -> dict[str, Any]:
        """Return it under stable keys, documented in docs/reference/json.md."""
        return {
            "attempt": self.number,
            "began": self.began,
            "ended": self.ended,
            "status": self.status,
            "rank": self.rank,
            "host": self.host,
            "decision": self.decision,
            "cause": self.cause or None,
            "done": self.done or None,
        }


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """first, second, …; 11th where words grow long."""
    return _ORDINALS[number - 1] if 0 < number <= len(_ORDINALS) else f"{number}th"


def read_attempts(folder: Path) -> list[Attempt]:
    """The runs that a run directory tells of; none where the job may not run again."""
    try:
        lines = (folder / "attempts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, began, nodes, lost = (*line.split("\t"), "", "", "", "")[:4]
        if number.isdigit():
            found.append(Attempt(int(number), nodes, tuple(lost.split()), whole_number(began)))
    return found


def read_ends(folder: Path) -> list[End]:
    """The ends that a run directory tells of; none where ranks do not start again."""
    try:
        lines = (folder / "ends").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [end for line in lines if (end := _end(line.split("\t"))) is not None]


def _end(fields: list[str]) -> End | None:
    """One line; None where it was cut."""
    if len(fields) != _FIELDS:
        return None
    number, began, ended, status = map(whole_number, fields[:4])
    if number is None or began is None or ended is None or status is None:
        return None
    rank, host, decision, cause, done = fields[4:]
    return End(number, began, ended, status, whole_number(rank), host or None, decision, cause, done)


def folder_of(run: Run, task: str | None) -> Path:
    """Where a job, or one task of an array, keeps its attempts."""
    return run.directory if task is None else run.directory / f"task-{task}"


def ends_of_earlier(run: Run, task: str | None, *, waits: bool) -> Iterator[str]:
    """A sentence for each run that is over and was not the last; `waits`: the job waits for its next run."""
    folder = folder_of(run, task)
    attempts = read_attempts(folder)
    ends = {end.number: end for end in read_ends(folder)}
    if ends:
        yield from _story(run, task, attempts, ends)
        return
    if not attempts or (len(attempts) == 1 and not waits):
        return
    current = attempts[-1].number + waits
    yield f"{ordinal(current)} run: {_how_it_ended(run, task, attempts, current - 1)} in the {ordinal(current - 1)}"
    for number in range(current - 2, 0, -1):
        yield f"before that: {_how_it_ended(run, task, attempts, number)} in the {ordinal(number)}"


def _story(run: Run, task: str | None, attempts: list[Attempt], ends: dict[int, End]) -> Iterator[str]:
    """A sentence for each attempt that is over, in their order; one that ended well by itself needs none."""
    last = max(*(each.number for each in attempts), *ends, 0)
    if last == 1 and ends[1].decision == "done":
        return
    for number in range(1, last + 1):
        if number in ends:
            yield f"attempt {number}: {ends[number].sentence}"
        elif number < last:
            yield f"attempt {number}: {_how_it_ended(run, task, attempts, number)}"


def _how_it_ended(run: Run, task: str | None, attempts: list[Attempt], number: int) -> str:
    following = next((each for each in attempts if each.number == number + 1), None)
    if following is not None and following.lost_before:
        return f"{', '.join(following.lost_before)} failed"
    failure = first_failure(output_of_run(run.directory, (), task, attempt=number))
    if failure is None or not (failure.tasks or failure.host):
        return "it was put back into the queue"
    return failure.sentence
