"""The list of the runs of a job that Slurm may put back into the queue, and of their ends: RUN/attempts, RUN/ends.

A line for each: its number, when it began, its nodes, and those of the run before it that were down then
(render/shell/again/attempt.sh).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from muster.act.record import Run, written_lines
from muster.older import StrEnum
from muster.units import whole_number

_FIELDS = 11


class EndCause(StrEnum):
    """What the first cause of an end is of, where that is known."""

    RANK = "rank"
    NODE = "node"
    UNSAID = "unsaid"  # it is not known how ranks of a host ended


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job."""

    number: int
    nodes: str
    lost_before: tuple[str, ...]
    """Nodes of the run before that were down when this one began."""

    began: int | None = None
    job: str = ""
    """The job of this attempt, where several follow each other."""


class AttemptEnd(msgspec.Struct, frozen=True):
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

    kind: EndCause | None = None
    error_line: str = ""
    """The last line of an error that the rank wrote; empty where it wrote none."""

    @property
    def sentence(self) -> str:
        """Return the end in words."""
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


def read_attempts(folder: Path) -> list[Attempt]:
    """Return the runs that a run directory tells of; none where the job may not run again."""
    attempts = []
    for line in written_lines(folder / "attempts"):
        number, start_text, nodes, lost_text, job = (*line.split("\t"), "", "", "", "", "")[:5]
        if (attempt_number := whole_number(number)) is not None:
            lost = tuple(lost_text.split())
            attempts.append(Attempt(attempt_number, nodes, lost, whole_number(start_text), job))
    return attempts


def read_ends(folder: Path) -> list[AttemptEnd]:
    """Return the ends that a run directory tells of; none where ranks do not start again."""
    return [end for line in written_lines(folder / "ends") if (end := _end(line.split("\t"))) is not None]


def leaves_the_rest(folder: Path) -> bool:
    """Return whether the last attempt left the rest to the next link, by its own word."""
    attempts, ends = read_attempts(folder), read_ends(folder)
    return bool(attempts and ends) and ends[-1].decision in {"saved", "next"} and ends[-1].number == attempts[-1].number


class GoodEnd(NamedTuple):
    """A start of all ranks that ended well, as the script wrote it down (render/shell/step/count_ends.sh)."""

    when: int
    nodes: str


def read_good_ends(folder: Path) -> list[GoodEnd]:
    """Return the starts that ended well, by the job's own word."""
    rows = (line.partition("\t") for line in written_lines(folder / "well"))
    return [GoodEnd(whole_number(when) or 0, nodes) for when, _, nodes in rows]


def _end(fields: list[str]) -> AttemptEnd | None:
    """Return one line as an end; None where it was cut."""
    if len(fields) != _FIELDS:
        return None
    number, start_time, ended, status = map(whole_number, fields[:4])
    if number is None or start_time is None or ended is None or status is None:
        return None
    rank, host, decision, cause, completed_steps, kind, error_line = fields[4:]
    return AttemptEnd(
        number,
        start_time,
        ended,
        status,
        whole_number(rank),
        host or None,
        decision,
        cause,
        completed_steps,
        EndCause(kind) if kind in set(EndCause) else None,
        error_line,
    )


def folder_of(run: Run, task: str | None) -> Path:
    """Return where a job, or one task of an array, keeps its attempts."""
    return run.directory if task is None else run.directory / f"task-{task}"
