"""Why a job waits is said once, and again when the reason changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def allocated(said: list[str]) -> Iterator[keep._Allocated]:
    with Path(os.devnull).open("w") as guard:
        settings = KeepSettings(1.0, said.append, lambda _: "", steps_of_slurm=True)
        keeper = keep._Allocated(settings, {}, Guard(guard.fileno()))
        try:
            yield keeper
        finally:
            for pump in keeper.pumps:
                os.close(pump.reader)
                os.close(pump.writer)


def test_a_salloc_that_names_no_job_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [1000.0], list[str]()
    monkeypatch.setattr("muster.act.keep.time.monotonic", lambda: clock[0])
    with allocated(said) as keeper:
        for _ in range(3):
            clock[0] += keep._SILENT_S / 2 - 1
            keeper.look()
        assert said == [keep._SILENT]
        keeper.look()
        clock[0] += 600.0
        keeper.look()
    assert said == [keep._SILENT]


def test_a_salloc_that_has_ended_or_named_its_job_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [1000.0], list[str]()
    monkeypatch.setattr("muster.act.keep.time.monotonic", lambda: clock[0])
    with allocated(said) as keeper:
        keeper.child_status = 1
        clock[0] += 600.0
        keeper.look()
        keeper.child_status = None
        keeper._hear_salloc("salloc: Pending job allocation 7")
        clock[0] += 600.0
        keeper.look()
    assert said == []
