"""Two clusters, one home: the same number is two jobs, and no verb shows one for the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with, wait_until_ended
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab, lab_up

pytestmark = pytest.mark.lab


def _muster(lab: Lab, folder: Path, *words: str) -> ProgramResult:
    inside = ["env", f"XDG_STATE_HOME={folder / 'state'}", f"PATH={path_with()}", MUSTER, *words]
    return lab.exec(inside, cwd=folder)


def test_a_lab_that_is_made_anew_shows_nothing_of_the_one_before(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    """Both have one name, and both begin at job 1."""
    first = new_lab("-N", "1")
    said = checked(_muster(first, shared_directory, "submit", "--quiet", "--", "echo", "secret of the first"))
    job = said.stdout.strip()
    wait_until_ended(first, job)
    assert "secret of the first" in _muster(first, shared_directory, "logs", job).stdout
    first.muster("down")
    with lab_up(first.person, first.name, "-N", "1") as second:
        _shows_nothing_of_the_first(second, shared_directory, job)


def _shows_nothing_of_the_first(second: Lab, shared_directory: Path, job: str) -> None:
    for verb in ("logs", "status", "why"):
        told = _muster(second, shared_directory, verb, job)
        assert told.status == 2, told
        assert f"Slurm knows no job {job}" in told.stderr
    by_hand = ["sbatch", "--parsable", "--wait", "--output=by-hand.txt", "--wrap=echo by hand; exit 3"]
    for _ in range(int(job)):
        last = second.exec(by_hand, cwd=shared_directory).stdout.strip()
    assert last == job
    assert _muster(second, shared_directory, "logs", job).stdout == "by hand\n"
    for verb in ("status", "why"):
        told = checked(_muster(second, shared_directory, verb, job))
        assert "secret" not in told.stdout
        assert "muster-runs" not in told.stdout
        assert "FAILED" in told.stdout
