"""Guards that `muster why` explains what Slurm really says: the reasons are provoked, and Slurm is asked for each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.runner import checked
from muster.slurm.reasons import reason_of
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_SCRIPT = Path(__file__).with_name("provoke.sh")


def _why(lab: Lab, jobs: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What `muster why` says of each provoked reason's job."""
    said = checked(lab.exec([MUSTER, "why", "--json", *jobs.values()])).stdout
    entries: dict[str, dict[str, Any]] = {}
    for entry in json.loads(said):
        job = entry["shown_id"].partition("_")[0]
        if entry["waiting"] or job not in entries:  # of an array, the part that waits
            entries[job] = entry
    return {code: entries[job] for code, job in jobs.items()}


def _wrong(jobs: dict[str, str], said: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {code: said[code]["reason"] for code in jobs if (said[code]["reason"] or "None") != code}


def test_fifteen_reasons_that_slurm_gives_are_explained(new_lab: Callable[..., Lab], slurm_version: str) -> None:
    lab = new_lab("--slurm", slurm_version)
    lines = checked(lab.exec(["sh", str(_SCRIPT)])).stdout.splitlines()
    jobs = dict(line.split() for line in lines)
    assert len(jobs) == 16

    said = _said_at_last(lab, jobs)
    for code, entry in said.items():
        if entry["phase"] == "waiting":
            assert entry["waiting"]["sentence"] == reason_of(code).sentence
            assert entry["waiting"]["sooner"]


def test_a_limit_of_the_qos_is_explained(new_lab: Callable[..., Lab], slurm_version: str) -> None:
    lab = new_lab("-N", "1", "--accounting", "--slurm", slurm_version)
    limited = (
        "sacctmgr -i modify qos normal set MaxWall=20 MaxJobsPerUser=1 >/dev/null; "
        # The controller hears of it a moment later; a job that is submitted before that simply runs.
        "until scontrol -o show assoc_mgr flags=qos | grep -q MaxWallPJ=20; do sleep 0.1; done; "
        "sbatch --parsable -t 90 -o /dev/null --wrap 'sleep 600'"
    )
    # Slurm gives a job one reason. Once another job runs, the number of running jobs would be the reason of this one.
    long = checked(lab.exec(["sh", "-c", limited])).stdout.strip()
    said = _said_at_last(lab, {"QOSMaxWallDurationPerJobLimit": long})
    assert said["QOSMaxWallDurationPerJobLimit"]["waiting"]["clears"] == "when you change the job"

    two = "sbatch --parsable -t 9 -o /dev/null --wrap 'sleep 600'; " * 2
    _, many = checked(lab.exec(["sh", "-c", two])).stdout.split()
    said = _said_at_last(lab, {"QOSMaxJobsPerUserLimit": many})
    assert said["QOSMaxJobsPerUserLimit"]["waiting"]["clears"] == "by itself"


def _said_at_last(lab: Lab, jobs: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What `muster why` says once Slurm has the reasons; the scheduler looks at its queue every few seconds."""
    for _ in range(60):
        said = _why(lab, jobs)
        if not _wrong(jobs, said):
            break
        time.sleep(0.5)
    assert _wrong(jobs, said) == {}
    return said
