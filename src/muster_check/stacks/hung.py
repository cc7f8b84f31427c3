"""A job wrote nothing for long: look at its ranks, twice, and say who hangs. cli/silence.py starts this in the job.

The first look begins on this node alone: where one of its ranks goes on, nobody else is asked.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec

from muster.errors import MusterError
from muster.follow.hang_report import HANG_REPORT
from muster_check.stacks.ask import StackQuestion, ask_here, ask_job, find_spy
from muster_check.stacks.condition import JobCondition
from muster_check.stacks.firm import ends_after_s, is_still
from muster_check.stacks.fold import fold, lines_of
from muster_check.stacks.judge import judge_job
from muster_check.stacks.move import movements
from muster_check.stacks.own_words import own_words
from muster_check.stacks.quiet import Standstill
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
    beside_output: bool = False
    """Whether the job writes all the time: only a rank that stands, and others that wait for it, are then a hang."""


class Ranks:
    """The ranks of one job, which are looked at twice, and later again."""

    def __init__(self, watched: Watched, environment: Mapping[str, str]) -> None:
        self._watched, self._environment = watched, environment
        self._first: tuple[Round, ...] = ()
        self._said = ""

    def look(self, number: int, stood_s: int) -> Standstill | None:
        """Look at them, and judge from the second time (1) on; None: a rank goes on.

        `stood_s` is for how long nothing was seen of them.
        """
        try:
            return self._judge(stood_s) if number else self._begin()
        except MusterError as error:
            if not number:
                return Standstill()
            silence = f"nothing was written for {_time(stood_s)}"
            # What was not seen ends no attempt.
            return self._report(Standstill(f"{silence}, but the ranks cannot be looked at: {error}", inf))

    def _begin(self) -> Standstill | None:
        spy = find_spy(self._environment)
        if _goes_on_here(self._watched, spy):
            return None
        self._first, self._said = (), ""
        self._first = self._ask(StackQuestion(spy))[:1]
        return Standstill()

    def _judge(self, stood_s: int) -> Standstill | None:
        spy = find_spy(self._environment)
        question = StackQuestion(spy, rounds=_CONFIRM_ROUNDS, gap_s=_CONFIRM_GAP_S, late_s=_LATE_S, records=True)
        rounds = (*self._first, *self._ask(question))
        verdict = judge_job(rounds, self._watched.nodes)
        if verdict.kind is JobCondition.NO_PYTHON and not self._watched.beside_output:
            return self._report(Standstill(f"nothing was written for {_time(stood_s)}: {verdict.sentence}", inf))
        if not verdict.is_hang or (self._watched.beside_output and not verdict.others_wait):
            return None
        # Who looks stops the ranks: the next look begins behind these stops.
        self._first = rounds[-1:]
        moved = movements(rounds)
        groups = fold(rounds[-1].stacks)
        # Of a node that does not answer it is unknown which processes there are.
        size = 0 if verdict.kind is JobCondition.NODE else max((stack.size for stack in rounds[-1].stacks), default=0)
        text = "; ".join((verdict.sentence, *own_words(rounds[-1].stacks)))
        lines = tuple(lines_of(groups, size, linecache.getline))
        seen = "has gone on" if is_still(moved) else "was seen to go on"
        sentence = f"no rank {seen} for {_time(stood_s)}: {text}"
        standstill = Standstill(sentence, ends_after_s(moved, self._watched.after_s))
        return self._report(standstill, lines, verdict.remedy)

    def _report(self, standstill: Standstill, lines: Sequence[str] = (), remedy: str = "") -> Standstill:
        """Say it in the log, and where `muster why` finds it; what was said is not said again until it ends a job."""
        sentence = standstill.sentence
        is_sure = standstill.ends_after_s <= self._watched.after_s
        word = "hang" if is_sure else "quiet"
        if not self._said:
            for line in (sentence, *(f"  {line}" for line in lines if line)):
                self._watched.say(f"{word}: {line}")
            if remedy:
                self._watched.say(f"{word}: hint: {remedy}")
            if not is_sure:
                self._watched.say(f"{word}: {_MAY_GO_ON}")
        self._said = sentence
        if self._watched.directory.is_dir():
            _write(self._watched.directory / HANG_REPORT, f"{sentence}\n")
        return standstill

    def _ask(self, question: StackQuestion) -> tuple[Round, ...]:
        return read_rounds(ask_job(self._watched.job, (len(self._watched.nodes),), self._environment, question))


def _goes_on_here(watched: Watched, spy: str | None) -> bool:
    """Tell whether a rank of this node goes on: Slurm is not asked then."""
    gap = min(_LONGEST_GAP_S, max(watched.after_s / 10, 0.5))
    rounds = read_rounds(ask_here(watched.job, StackQuestion(spy, rounds=3, gap_s=gap / 2)))
    return bool(rounds) and any(movement.goes_on for movement in movements(rounds))


_MAY_GO_ON = "the ranks may still go on by themselves"


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
