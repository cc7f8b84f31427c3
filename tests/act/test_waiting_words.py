"""Why a job waits is said once, and again when the reason changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.act import keep
from muster.act.guard import Guard
from muster.act.keep import KeepSettings


def test_a_reason_is_said_when_it_comes_and_not_again_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    answers = ["", "others are before it", "others are before it", "", "others are before it", "no node is free"]
    said: list[str] = []
    asked: list[str] = []

    def wait_words(job: str) -> str:
        asked.append(job)
        return answers[len(asked) - 1]

    monkeypatch.setattr("muster.act.keep.time.monotonic", lambda: clock[0])
    with Path(os.devnull).open("w") as guard:
        keeper = keep._Allocated(
            KeepSettings(1.0, said.append, wait_words, steps_of_slurm=True), {}, Guard(guard.fileno())
        )
        try:
            keeper.look()  # no job yet
            keeper.job = "7"
            keeper.look()  # Slurm has not looked at it yet
            assert asked == []
            for _ in answers:
                clock[0] += 60.0
                keeper.look()
                keeper.look()  # at once: Slurm is not asked again
            assert asked == ["7"] * len(answers)
            keeper.started = True
            clock[0] += 600.0
            keeper.look()
        finally:
            for pump in keeper.pumps:
                os.close(pump.reader)
                os.close(pump.writer)

    assert said == ["others are before it", "no node is free"]
    assert len(asked) == len(answers), "the ranks run: nothing is waited for"
