"""A job wrote nothing for long: look at its ranks, twice, and say who hangs. cli/silence.py starts this in the job.

The first look begins on this node alone: where one of its ranks goes on, nobody else is asked.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.errors import MusterError
from muster.stacks.ask import Question, ask_here, ask_job, find_spy
from muster.stacks.fold import fold, lines_of
from muster.stacks.judge import Verdict, judge_job, movements
from muster.stacks.read import Round, read_rounds

__all__ = ["REPORT", "Watched", "look"]

REPORT = "hang"
"""In the run directory: what was found, while it holds."""

_FIRST = "silence"
_CONFIRM_ROUNDS, _CONFIRM_GAP_S = 4, 1.0
_LONGEST_GAP_S = 10.0
_LATE_S = 30.0


class Watched(msgspec.Struct, frozen=True):
    """The job that is looked at."""

    job: str
    nodes: tuple[str, ...]
    directory: Path
    after_s: int
    say: Callable[[str], None]


def look(watched: Watched, *, is_second: bool, environment: Mapping[str, str]) -> bool:
    """Look for the first time, or for the second and judge; return whether a rank goes on."""
    try:
        return _second_look(watched, environment) if is_second else _first_look(watched, environment)
    except MusterError as error:
        if is_second:
            silence = f"nothing was written for {_time(watched.after_s)}"
            _report(watched, f"{silence}, and the ranks cannot be looked at: {error}", ())
        return False


def _first_look(watched: Watched, environment: Mapping[str, str]) -> bool:
    spy = find_spy(environment)
    if _goes_on_here(watched, spy):
        return True
    _write(
        watched.directory / _FIRST, ask_job(watched.job, len(watched.nodes), environment, Question(spy, late_s=_LATE_S))
    )
    return False


def _second_look(watched: Watched, environment: Mapping[str, str]) -> bool:
    question = Question(find_spy(environment), rounds=_CONFIRM_ROUNDS, gap_s=_CONFIRM_GAP_S, late_s=_LATE_S)
    rounds = (*_first(watched), *read_rounds(ask_job(watched.job, len(watched.nodes), environment, question)))
    verdict = judge_job(rounds, watched.nodes)
    if not verdict.is_hang:
        return True
    groups = fold(rounds[-1].stacks)
    size = max((stack.size for stack in rounds[-1].stacks), default=0)
    _report(watched, _sentence(watched, verdict), tuple(lines_of(groups, size, linecache.getline)))
    return False


def _goes_on_here(watched: Watched, spy: str | None) -> bool:
    """Tell whether a rank of this node goes on: Slurm is not asked then."""
    gap = min(_LONGEST_GAP_S, max(watched.after_s / 10, 0.5))
    rounds = read_rounds(ask_here(watched.job, Question(spy, rounds=3, gap_s=gap / 2)))
    return bool(rounds) and any(each.goes_on for each in movements(rounds))


def _first(watched: Watched) -> tuple[Round, ...]:
    try:
        return read_rounds((watched.directory / _FIRST).read_text(encoding="utf-8"))[:1]
    except OSError:
        return ()


def _sentence(watched: Watched, verdict: Verdict) -> str:
    return f"no rank has gone on for {_time(watched.after_s)}: {verdict.sentence}"


def _report(watched: Watched, sentence: str, lines: Sequence[str]) -> None:
    """Say it in the log, and where `muster why` finds it."""
    for line in (f"hang: {sentence}", *(f"hang:   {line}" for line in lines if line)):
        watched.say(line)
    _write(watched.directory / REPORT, f"{sentence}\n")


def _write(path: Path, text: str) -> None:
    """Write a file whole, for its owner alone."""
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    part.replace(path)


def _time(seconds: int) -> str:
    if seconds % 60 or seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds % 3600 else f"{seconds // 3600} h"
