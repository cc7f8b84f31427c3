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
from muster.follow.hang_report import HANG_REPORT
from muster_check.stacks.ask import StackQuestion, ask_here, ask_job, find_spy
from muster_check.stacks.fold import fold, lines_of
from muster_check.stacks.judge import JobCondition, judge_job, movements
from muster_check.stacks.own_words import own_words
from muster_check.stacks.read import Round, read_rounds

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


class Ranks:
    """The ranks of one job, which are looked at twice."""

    def __init__(self, watched: Watched, environment: Mapping[str, str]) -> None:
        self._watched, self._environment = watched, environment
        self._first: tuple[Round, ...] = ()

    def look(self, *, is_second: bool) -> str | None:
        """Look for the first time, or for the second and judge; None: a rank goes on; else the hang, once certain."""
        try:
            return self._judge() if is_second else self._begin()
        except MusterError as error:
            if not is_second:
                return ""
            silence = f"nothing was written for {_time(self._watched.after_s)}"
            return _report(self._watched, f"{silence}, but the ranks cannot be looked at: {error}")

    def _begin(self) -> str | None:
        spy = find_spy(self._environment)
        if _goes_on_here(self._watched, spy):
            return None
        self._first = ()
        self._first = self._ask(StackQuestion(spy))[:1]
        return ""

    def _judge(self) -> str | None:
        spy = find_spy(self._environment)
        question = StackQuestion(spy, rounds=_CONFIRM_ROUNDS, gap_s=_CONFIRM_GAP_S, late_s=_LATE_S, records=True)
        rounds = (*self._first, *self._ask(question))
        verdict = judge_job(rounds, self._watched.nodes)
        if not verdict.is_hang:
            return None
        groups = fold(rounds[-1].stacks)
        # Of a node that does not answer it is unknown which processes there are.
        size = 0 if verdict.kind is JobCondition.NODE else max((stack.size for stack in rounds[-1].stacks), default=0)
        text = "; ".join((verdict.sentence, *own_words(rounds[-1].stacks)))
        lines = tuple(lines_of(groups, size, linecache.getline))
        return _report(self._watched, _sentence(self._watched, text), lines, verdict.remedy)

    def _ask(self, question: StackQuestion) -> tuple[Round, ...]:
        return read_rounds(ask_job(self._watched.job, len(self._watched.nodes), self._environment, question))


def _goes_on_here(watched: Watched, spy: str | None) -> bool:
    """Tell whether a rank of this node goes on: Slurm is not asked then."""
    gap = min(_LONGEST_GAP_S, max(watched.after_s / 10, 0.5))
    rounds = read_rounds(ask_here(watched.job, StackQuestion(spy, rounds=3, gap_s=gap / 2)))
    return bool(rounds) and any(movement.goes_on for movement in movements(rounds))


def _sentence(watched: Watched, text: str) -> str:
    return f"no rank has gone on for {_time(watched.after_s)}: {text}"


def _report(watched: Watched, sentence: str, lines: Sequence[str] = (), remedy: str = "") -> str:
    """Say the hang in the log, and where `muster why` finds it; return its sentence."""
    for line in (f"hang: {sentence}", *(f"hang:   {line}" for line in lines if line)):
        watched.say(line)
    if remedy:
        watched.say(f"hang: hint: {remedy}")
    if watched.directory.is_dir():
        _write(watched.directory / HANG_REPORT, f"{sentence}\n")
    return sentence


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
