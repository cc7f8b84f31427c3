"""`should_save()`: yes at the same call on all ranks, whoever heard the signal and whenever, and at no cost before."""

from __future__ import annotations

import math
import os
import random
import signal
import time

import pytest

import muster
from muster.rank.saving import Saving, time_left

from .ranks import Ended, together, torch_variables

_STEPS = 400


def test_time_left_is_what_the_job_says() -> None:
    assert time_left({}) == math.inf
    assert time_left({"MUSTER_END": ""}) == math.inf
    assert time_left({"MUSTER_END": "12"}) == 0
    assert 5000 < time_left({"MUSTER_END": str(int(time.time()) + 6000), "SLURM_JOB_END_TIME": "12"}) <= 6000
    assert 5000 < time_left({"SLURM_JOB_END_TIME": str(int(time.time()) + 6000)}) <= 6000


def test_without_the_option_nobody_is_ever_told() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    saving = Saving({}, None, "save", 0, 1)

    assert signal.getsignal(signal.SIGUSR1) is before
    assert not any(saving.should_save() for _ in range(5))


def test_a_rank_alone_says_yes_once_for_a_signal_and_the_handler_before_hears_it_too() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: heard.append(number))
    saving = Saving({"MUSTER_SAVE_SIGNAL": "USR2"}, None, "save", 0, 1)
    try:
        answers = [saving.should_save()]
        os.kill(os.getpid(), signal.SIGUSR2)
        answers += [saving.should_save(), saving.should_save()]
    finally:
        saving.end()
        signal.signal(signal.SIGUSR2, before)

    assert answers == [False, True, False]
    assert heard == [signal.SIGUSR2]


def _environment(rank: int, size: int) -> dict[str, str]:
    return {**torch_variables(rank, size), "MUSTER_SAVE_SIGNAL": "USR1"}


def _calls(ended: list[Ended]) -> list[list[str]]:
    assert [each.status for each in ended] == [0] * len(ended), ended[0].err
    return [each.out.split() for each in ended]


def _train(heard_at: dict[int, int], *, together_each_step: bool) -> list[list[str]]:
    """Ranks that are told at different steps, or not at all; the calls at which each of them says yes."""

    def body() -> None:
        dice = random.Random(os.environ["RANK"])  # noqa: S311
        with muster.world() as world:
            for step in range(1, _STEPS + 1):
                time.sleep(dice.random() / 100)
                if together_each_step:
                    world.barrier()
                if heard_at.get(world.rank) == step:
                    os.kill(os.getpid(), signal.SIGUSR1)
                if world.should_save():
                    print(step)
                    break

    return _calls(together(4, body, environment=_environment))


@pytest.mark.torch
@pytest.mark.parametrize("together_each_step", [True, False], ids=["in step", "apart"])
@pytest.mark.parametrize("heard_at", [{0: 5, 1: 5, 2: 6, 3: 5}, {2: 9}, {0: 3, 3: 60}], ids=["all", "one", "two"])
def test_all_ranks_save_at_the_same_call(heard_at: dict[int, int], together_each_step: bool) -> None:
    calls = _train(heard_at, together_each_step=together_each_step)

    assert len(calls[0]) == 1
    assert calls == [calls[0]] * 4


@pytest.mark.torch
def test_each_signal_is_answered_once() -> None:
    def body() -> None:
        with muster.world() as world:
            for step in range(1, _STEPS + 1):
                time.sleep(0.01)
                world.barrier()
                if world.rank == step % 4 and step in {5, 200}:
                    os.kill(os.getpid(), signal.SIGUSR1)
                if world.should_save():
                    print(step)

    calls = _calls(together(4, body, environment=_environment))

    assert len(calls[0]) == 2
    assert calls == [calls[0]] * 4
