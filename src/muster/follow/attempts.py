"""The attempts of a job whose ranks ran again: because Slurm put it back into the queue, or started in its allocation.

RUN/attempts                one line each: number, when it began, its nodes, those of the one before that were lost
RUN/ends                    one line for each that ended: number, when it began and ended, status, rank, host, decision,
                            first cause, and what was done, in words; the kind of that cause, and the rank's error line
RUN/logs/                   the first run's logs
RUN/logs/attempt-N/         those of run N, from the second on
RUN/roles/NAME/             the same files of a role
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from muster.act.record import Run
from muster.follow.attempt_list import Attempt, AttemptEnd, folder_of, read_attempts, read_ends, read_good_ends
from muster.follow.find_output import find_output
from muster.follow.first_failure import first_failure
from muster.follow.roles import stands_of
from muster.follow.saves import read_saves

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def ordinal(number: int) -> str:
    """Return first, second, …; 11th where words grow long."""
    return _ORDINALS[number - 1] if 0 < number <= len(_ORDINALS) else f"{number}th"


def ends_of_earlier(run: Run, task: str | None, *, waits: bool, is_role: bool = False) -> Iterator[str]:
    """Yield a sentence for each run that is over and was not the last; `waits`: the job waits for its next run."""
    for role, of_role in _roles(run):
        yield from (f"role {role}, {text}" for text in ends_of_earlier(of_role, None, waits=False, is_role=True))
    folder = folder_of(run, task)
    attempts = read_attempts(folder)
    ends = {end.number: end for end in read_ends(folder) if not (is_role and _ended_with_job(end))}
    yield from _saves(folder, ends)
    if ends:
        yield from _story(run, task, attempts, ends)
        return
    if not attempts or (len(attempts) == 1 and not waits):
        return
    current = attempts[-1].number + waits
    yield f"{ordinal(current)} run: {_how_it_ended(run, task, attempts, current - 1)} in the {ordinal(current - 1)}"
    for number in range(current - 2, 0, -1):
        yield f"before that: {_how_it_ended(run, task, attempts, number)} in the {ordinal(number)}"


def own_word_of_end(run: Run, task: str | None) -> Iterator[str]:
    """Yield what the script wrote down of a good end, for a job that Slurm tells nothing of."""
    folder = folder_of(run, task)
    ends = read_ends(folder)
    good_ends = read_good_ends(folder)
    if good_ends and (not ends or ends[-1].decision == "done"):
        yield f"its script wrote down that all ranks on {good_ends[-1].nodes} ended well"


def _ended_with_job(end: AttemptEnd) -> bool:
    """Return whether a role was ended from outside, as the runner ends those that are left at the job's end."""
    return end.decision == "end" and end.host is None and end.status == 128 + signal.SIGTERM


def _roles(run: Run) -> list[tuple[str, Run]]:
    """Return each role of a run, with the part of the run that is the role's: its files are those of a run."""
    names = [stand.name for stand in stands_of(run.directory)]
    return [(name, replace(run, directory=run.directory / "roles" / name)) for name in names]


def attempts_over(run: Run, task: str | None, *, waits: bool) -> list[dict[str, Any]]:
    """Return each attempt that is over, under the keys of docs/reference/json.md.

    One that Slurm ended wrote nothing down.
    """
    folder = folder_of(run, task)
    attempts = read_attempts(folder)
    ends = {end.number: end for end in read_ends(folder)}
    last = max((attempt.number for attempt in attempts), default=0)
    stories = []
    for attempt in attempts:
        end = ends.get(attempt.number)
        if end is None and (attempt.number < last or waits):
            cause = _how_it_ended(run, task, attempts, attempt.number)
            end = AttemptEnd(
                attempt.number, attempt.began or 0, 0, 0, None, None, "again", cause, "put back into the queue"
            )
            stories.append({**end.as_json(), "began": attempt.began, "ended": None, "status": None})
        elif end is not None:
            stories.append(end.as_json())
    of_roles = ((role, attempts_over(of_role, None, waits=False)) for role, of_role in _roles(run))
    return [*stories, *({**story, "role": role} for role, of_role in of_roles for story in of_role)]


def _saves(folder: Path, ends: dict[int, AttemptEnd]) -> Iterator[str]:
    """A sentence for each time that ranks were told to save, unless the end of their attempt says it."""
    for told_save in read_saves(folder):
        end = ends.get(told_save.number)
        if end is None or (told_save.told and told_save.sentence not in end.sentence):
            yield told_save.sentence


def _story(run: Run, task: str | None, attempts: list[Attempt], ends: dict[int, AttemptEnd]) -> Iterator[str]:
    """Yield a sentence for each attempt that is over, in their order; one that ended well by itself needs none."""
    last = max(*(attempt.number for attempt in attempts), *ends, 0)
    if last == 1 and ends[1].decision == "done":
        return
    jobs = {attempt.number: f" (job {attempt.job})" for attempt in attempts if attempt.job}
    for number in range(1, last + 1):
        if number in ends:
            yield f"attempt {number}{jobs.get(number, '')}: {ends[number].sentence}"
        elif number < last:
            yield f"attempt {number}{jobs.get(number, '')}: {_how_it_ended(run, task, attempts, number)}"


def _how_it_ended(run: Run, task: str | None, attempts: list[Attempt], number: int) -> str:
    next_attempt = next((attempt for attempt in attempts if attempt.number == number + 1), None)
    if next_attempt is not None and next_attempt.lost_before:
        return f"{', '.join(next_attempt.lost_before)} failed"
    output = find_output(None, run, run.job if task is None else f"{run.job}_{task}", number)
    failure = None if output is None else first_failure(output)
    # Slurm ends what it puts back into the queue with SIGTERM, and a rank may report that.
    if failure is None or not (failure.tasks or failure.host) or failure.status == 128 + signal.SIGTERM:
        return "it was put back into the queue"
    return failure.sentence
