"""A job that runs again: only when it was asked for, with the logs of each run, and its end is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with, wait_for_files, wait_until_ended
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

# The first run waits to be ended, the second ends by itself.
_RANK = """\
echo "token $HF_TOKEN of run ${SLURM_RESTART_COUNT:-0}"
: >"began.${SLURM_RESTART_COUNT:-0}.$RANK"
[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || exec sleep 300
"""


def _muster(lab: Lab, folder: Path) -> Callable[..., ProgramResult]:
    def start(*words: str) -> ProgramResult:
        env = {"PATH": path_with(), "HF_TOKEN": "t0ken-of-the-test"}
        return lab.exec(["env", f"XDG_STATE_HOME={folder / 'state'}", MUSTER, *words], cwd=folder, env=env)

    return start


def _begun(lab: Lab, folder: Path, *words: str) -> tuple[Callable[..., ProgramResult], str, Path]:
    muster = _muster(lab, folder)
    (folder / "rank.sh").write_text(_RANK)
    size = ("-N", "2", "--ntasks-per-node", "1", "--env", "HF_TOKEN")
    job = checked(muster("submit", "--quiet", *size, *words, "--", "sh", "rank.sh")).stdout.strip()
    wait_for_files(folder, "began.0.*", 2)
    (run,) = (folder / "muster-runs").iterdir()
    return muster, job, run


def _back_in_queue(lab: Lab, job: str) -> None:
    for _ in range(200):
        state = checked(lab.exec(["squeue", "--noheader", f"--jobs={job}", "--format=%T"])).stdout.strip()
        if state == "PENDING":
            return
        time.sleep(0.3)
    raise AssertionError(f"job {job} is {state}")


def _released(lab: Lab, job: str, folder: Path) -> None:
    """Let a job run again that Slurm holds back for two minutes, but not in the second in which its first run ended.

    A node refuses what Slurm grants in the second in which it withdrew the same job: that run would end with status 1.
    """
    time.sleep(2)
    for _ in range(100):
        lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"])  # refused once it runs
        if (folder / "began.1.0").exists():
            return
        time.sleep(0.5)
    raise AssertionError(f"there was no second run: {lab.exec(['scontrol', 'show', 'job', job]).stdout}")


def test_nobody_runs_a_job_again_unasked(lab: Lab, shared_directory: Path) -> None:
    muster, job, _ = _begun(lab, shared_directory)
    try:
        assert not lab.exec(["scontrol", "requeue", job]).ok
        assert "Requeue=0" in checked(lab.exec(["scontrol", "show", "job", job])).stdout
    finally:
        muster("cancel", job)


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_each_run_keeps_its_logs_and_the_job_ends_known(lab: Lab, shared_directory: Path, launcher: str) -> None:
    muster, job, run = _begun(lab, shared_directory, "--requeue", "--launcher", launcher)
    checked(lab.exec(["scontrol", "requeue", job]))
    _back_in_queue(lab, job)
    told = muster("status", job).stdout
    assert "second run: it was put back into the queue in the first" in told, told
    _released(lab, job, shared_directory)

    assert wait_until_ended(lab, job) == "COMPLETED"
    first = muster("logs", job, "--attempt", "1").stdout
    assert f"job {job} has no run 9: its newest is number 2" in muster("logs", job, "--attempt", "9").stderr
    assert first.count("token t0ken-of-the-test of run 0") == 2
    assert "run 1" not in first
    second = muster("logs", job).stdout
    assert second.count("token t0ken-of-the-test of run 1") == 2
    assert "run 0" not in second
    for verb in ("status", "why"):
        assert "second run: it was put back into the queue in the first" in muster(verb, job).stdout
    (over,) = json.loads(muster("why", "--json", job).stdout)[0]["attempts"]
    assert json.loads(muster("status", "--json", job).stdout)[0]["attempts"] == [over]
    assert (over["attempt"], over["decision"], over["cause"]) == (1, "again", "it was put back into the queue")
    assert {path.name for path in (run / "logs" / "attempt-2").iterdir()} >= {"batch.log"}
    assert not (run / "passed").exists()


def test_one_file_that_was_named_holds_all_runs_and_each_is_told_apart(lab: Lab, shared_directory: Path) -> None:
    muster, job, run = _begun(lab, shared_directory, "--requeue", "-o", "out/%j.txt", "-e", "out/%j.err")
    checked(lab.exec(["scontrol", "requeue", job]))
    _back_in_queue(lab, job)
    _released(lab, job, shared_directory)

    assert wait_until_ended(lab, job) == "COMPLETED"
    assert (shared_directory / "out" / f"{job}.txt").read_text().count("token") == 4
    first, last = muster("logs", job, "--attempt", "1").stdout, muster("logs", job).stdout
    assert (first.count("of run 0"), first.count("of run 1")) == (2, 0), first
    assert (last.count("of run 0"), last.count("of run 1")) == (0, 2), last
    assert (run / "attempts").read_text().count("\n") == 2
    assert "second run: it was put back into the queue in the first" in muster("why", job).stdout


def test_a_node_that_failed_in_the_first_run_is_named(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    lab = new_lab("-N", "3")
    muster, job, _ = _begun(lab, shared_directory, "--requeue", "-x", "node3")
    checked(lab.muster("fault", "kill-node", "node2"))
    _back_in_queue(lab, job)
    checked(lab.exec(["scontrol", "update", f"JobId={job}", "ExcNodeList="]))
    _released(lab, job, shared_directory)

    assert wait_until_ended(lab, job) == "COMPLETED"
    for verb in ("status", "why"):
        assert "second run: node2 failed in the first" in muster(verb, job).stdout
    assert json.loads(muster("status", "--json", job).stdout)[0]["state"] == "COMPLETED"


def test_what_a_job_needs_that_runs_is_not_cleaned_away(lab: Lab, shared_directory: Path) -> None:
    muster, job, run = _begun(lab, shared_directory)
    try:
        kept = json.loads(checked(muster("clean", "--older", "1", "--json", "--yes")).stdout)
        assert [each["kept"] for each in kept if each["job"] == job] in ([], [f"job {job} waits or runs"])
        assert run.is_dir()
    finally:
        muster("cancel", job)
