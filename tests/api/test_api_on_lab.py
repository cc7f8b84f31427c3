"""A job from Python on a real cluster: submitted, waited for, and how it ended, a good one and a failed one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import Lab

pytestmark = pytest.mark.lab

PROGRAM = """
import json, muster

good = muster.submit(["sh", "-c", "exit 0"], nodes=2, ntasks_per_node=1)
bad = muster.submit(
    ["sh", "-c", 'test "$RANK" != 1 || { echo it broke; exit 7; }'], nodes=2, ntasks_per_node=1, job_name="bad"
)
kinds = [type(event).__name__ for event in bad.events(timeout=200)]
ends = [job.result(timeout=200) for job in (good, bad)]
waiting = muster.submit(["sleep", "600"], nodes=1, ntasks_per_node=1, sbatch="--begin=now+1hour")
# At first Slurm may not have looked at it yet.
waits = next(event for event in waiting.events(timeout=200) if event.reason != "None")
waiting.cancel()
print(json.dumps({
    "kinds": kinds,
    "ends": [[end.ok, end.status, end.rank, end.host, end.last_lines] for end in ends],
    "same": muster.job(bad.id).directory == bad.directory,
    "waits": [type(waits).__name__, waits.reason],
}))
"""


def test_a_good_a_failed_and_a_waiting_job(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "drive.py").write_text(PROGRAM)

    told = json.loads(checked(lab.exec([sys.executable, "drive.py"], cwd=shared_directory, timeout_s=300)).stdout)

    assert told["kinds"][-1] == "Ended"
    good, bad = told["ends"]
    assert good == [True, 0, None, None, []]
    assert bad == [False, 7, 1, "node2", ["it broke"]]
    assert told["same"]
    assert told["waits"] == ["Pending", "BeginTime"]
