"""The runs of a job that Slurm put back into the queue: how many there were, and how those before the last ended.

RUN/attempts                one line a run: number, when it began, its nodes, those of the run before that were lost
RUN/logs/                   the first run's logs
RUN/logs/attempt-N/         those of run N, from the second on
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from muster.act.record import Run
from muster.follow.first_failure import first_failure
from muster.follow.watch import output_of_run

__all__ = ["Attempt", "ends_of_earlier", "read_attempts"]


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job."""

    number: int
    nodes: str
    lost_before: tuple[str, ...]
    """Nodes of the run before that were down when this one began."""


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
        number, _, nodes, lost = (*line.split("\t"), "", "", "", "")[:4]
        if number.isdigit():
            found.append(Attempt(int(number), nodes, tuple(lost.split())))
    return found


def ends_of_earlier(run: Run, task: str | None, *, waits: bool) -> Iterator[str]:
    """A sentence for each run that is over and was not the last; `waits`: the job waits for its next run."""
    folder = run.directory if task is None else run.directory / f"task-{task}"
    attempts = read_attempts(folder)
    if not attempts or (len(attempts) == 1 and not waits):
        return
    current = attempts[-1].number + waits
    yield f"{ordinal(current)} run: {_how_it_ended(run, task, attempts, current - 1)} in the {ordinal(current - 1)}"
    for number in range(current - 2, 0, -1):
        yield f"before that: {_how_it_ended(run, task, attempts, number)} in the {ordinal(number)}"


def _how_it_ended(run: Run, task: str | None, attempts: list[Attempt], number: int) -> str:
    following = next((each for each in attempts if each.number == number + 1), None)
    if following is not None and following.lost_before:
        return f"{', '.join(following.lost_before)} failed"
    failure = first_failure(output_of_run(run.directory, (), task, attempt=number))
    if failure is None or not (failure.tasks or failure.host):
        return "it was put back into the queue"
    return failure.sentence
