"""munge is dead: every verb that asks Slurm says so, and none blames the controller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_VERBS = (
    ("run", "-N", "2", "--", "true"),
    ("submit", "--", "true"),
    ("jobs",),
    ("status", "1"),
    ("why", "1"),
    ("logs", "1"),
    ("cancel", "1"),
    ("queues",),
    ("stacks", "1"),
)


def test_every_verb_says_that_munge_is_down(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    lab = new_lab("-N", "2")
    checked(lab.exec(["sh", "-c", "kill -9 $(pgrep -x munged)"]))

    def start(words: tuple[str, ...]) -> ProgramResult:
        state = f"XDG_STATE_HOME={shared_directory / 'state'}"
        return lab.exec(["env", state, MUSTER, *words], cwd=shared_directory, env={"PATH": path_with()})

    with ThreadPoolExecutor(len(_VERBS)) as pool:  # they wait, all for the same
        results = dict(zip(_VERBS, pool.map(start, _VERBS), strict=True))
    for words, result in results.items():
        assert "munge, by which Slurm knows who asks, is down on this host" in result.stderr, (words, result.stderr)
        assert "hint: systemctl status munge" in result.stderr, words
        assert "controller does not answer" not in result.stderr, words
        assert result.status == 3, words
    checked(lab.muster("fault", "restore", "controller"))
    assert lab.exec(["squeue"]).ok
