"""Forty ways to hang: each is named by its job, with rank, host, line and kind, within a minute of the time set."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from plugins.labs import MUSTER, Lab
from stacks.hanging_jobs import CASES, misses, reports, submit

# One of each family, for every run of CI.
_SOME = ("sleep_before_all_reduce", "stopped", "loader_after_fork", "left_out")
_AFTER_S = 8
_LATE_S = 60


@pytest.mark.lab
@pytest.mark.torch
def test_some_ways_to_hang_are_named(lab: Lab, shared_directory: Path) -> None:
    found = reports(lab, shared_directory, _SOME, launcher="srun", after_s=_AFTER_S, at_once=4, patience_s=200)
    assert {name: list(misses(CASES[name], found[name])) for name in _SOME} == {name: [] for name in _SOME}, found


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_forty_ways_to_hang_are_named(lab: Lab, shared_directory: Path, launcher: str) -> None:
    found = reports(lab, shared_directory, CASES, launcher=launcher, after_s=_AFTER_S, at_once=4, patience_s=200)
    missed = {name: wrong for name, case in CASES.items() if (wrong := list(misses(case, found[name])))}
    late = sorted(report.silent_s - _AFTER_S for report in found.values() if report)
    figures = f"median {median(late):.0f} s, slowest {late[-1]:.0f} s after the time set"
    print(f"{len(CASES) - len(missed)} of {len(CASES)} named under {launcher}; {figures}")
    for name, wrong in missed.items():
        print(name, wrong, found[name])
    assert len(missed) <= 1
    assert late[-1] <= _LATE_S


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.long
def test_work_in_silence_is_no_hang(lab: Lab, shared_directory: Path) -> None:
    """48 times the time set, in sum: as 24 hours of jobs under the default of 30 minutes."""
    scripts = sorted((Path(__file__).parent / "healthy").glob("*.py"))
    each = 48 * _AFTER_S / len(scripts)
    jobs = {
        script: submit(lab, shared_directory, script, "srun", _AFTER_S, SECONDS_EACH=f"{each:g}") for script in scripts
    }
    for script, (job, directory) in jobs.items():
        done = lab.exec([MUSTER, "logs", "-f", job], timeout_s=600)
        assert done.ok, (script.name, done.stdout, done.stderr)
        assert "hang:" not in (directory / "logs/batch.log").read_text(), script.name
