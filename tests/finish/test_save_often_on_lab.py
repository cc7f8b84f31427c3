"""A job saves before its limit, when it is preempted and when it is requeued: once, all ranks at one step.

The short form tries each way once; the long form each way 20 times under every launcher.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launch.lab_runs import path_with, wait_for_files
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab, Person, lab_up

from .saving import TRAINING, saved_steps

pytestmark = pytest.mark.lab

_RANKS = 2
_TRIES = 20
_WITH_TORCH = 5
_AT_ONCE = 4
_WAIT_S = 180
# A partition whose jobs give way, with a notice to the script or by SIGTERM alone.
_SETTINGS = """\
grep -v -E '^(PartitionName|Preempt|SlurmctldParameters|KillWait)' /etc/slurm/slurm.conf >/etc/slurm/new
cat >>/etc/slurm/new <<END
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=20
SlurmctldParameters=preempt_send_user_signal
PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=20
PartitionName=high Nodes=ALL State=UP PriorityTier=10
END
mv /etc/slurm/new /etc/slurm/slurm.conf
scontrol reconfigure
"""
_LONG = [
    pytest.param(launcher, _TRIES, marks=[pytest.mark.long, *marks], id=f"{launcher}-{_TRIES}")
    for launcher, marks in (("srun", []), ("mpirun", []), ("torchrun", [pytest.mark.torch]))
]


@pytest.fixture(scope="module")
def busy_lab(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """A lab of two hosts in which one partition preempts the jobs of another."""
    with lab_up(tester, "busy", "-N", "2", "--slurm", slurm_version) as made:
        checked(made.exec(["sh", "-c", _SETTINGS]))
        yield made


def _muster(lab: Lab, folder: Path) -> Callable[..., ProgramResult]:
    def start(*words: str) -> ProgramResult:
        command = ["env", f"XDG_STATE_HOME={folder / 'state'}", MUSTER, *words]
        return lab.exec(command, cwd=folder, env={"PATH": path_with()})

    return start


def _submit(lab: Lab, folder: Path, launcher: str, *words: str, script: str = "train.py") -> str:
    (folder / "saved").mkdir(parents=True)
    (folder / "train.py").write_text(TRAINING)
    size = ("-N", "2", "--ntasks-per-node", "1", "--checkpoint", "saved", "--launcher", launcher)
    command = ("submit", "--quiet", *size, *words, "--", "python3", script)
    return checked(_muster(lab, folder)(*command)).stdout.strip()


def _wait_until_over(lab: Lab, jobs: list[str]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        states = checked(lab.exec(["squeue", "--noheader", "--states=R,CG,CF", "--format=%i"])).stdout.split()
        if not set(jobs) & set(states):
            return
        time.sleep(0.5)
    raise AssertionError(f"{jobs} go on")


def _check(lab: Lab, folder: Path, job: str, sentence: str) -> int:
    """Return the one step at which all ranks saved."""
    story = _muster(lab, folder)("why", job).stdout
    steps = saved_steps(folder, job)
    assert len(steps) == _RANKS, story
    assert all(len(each) == 1 for each in steps.values()), steps
    (step,) = {each for rank in steps.values() for each in rank}
    assert sentence in story
    return step


@pytest.mark.parametrize(("launcher", "times"), _LONG)
def test_before_the_time_limit(busy_lab: Lab, shared_directory: Path, launcher: str, times: int) -> None:
    for first in range(0, times, _AT_ONCE):
        folders = [shared_directory / str(number) for number in range(first, min(first + _AT_ONCE, times))]
        jobs = [_submit(busy_lab, folder, launcher, "-t", "1", "--save-before", "20s") for folder in folders]
        _wait_until_over(busy_lab, jobs)
        for folder, job in zip(folders, jobs):
            _check(busy_lab, folder, job, "2 of 2 ranks got SIGUSR1 before the time limit; they ended well")


@pytest.mark.parametrize(("launcher", "times"), [("srun", 1), *_LONG])
def test_on_preemption(busy_lab: Lab, shared_directory: Path, launcher: str, times: int) -> None:
    for number in range(times):
        folder = shared_directory / str(number)
        job = _submit(busy_lab, folder, launcher, "-p", "low", "--exclusive", "-t", "5", "--save-before", "20s")
        wait_for_files(folder, f"began.{job}.1.*", _RANKS)
        checked(busy_lab.exec(["srun", "--quiet", "--exclusive", "-p", "high", "-N2", "-t", "1", "true"]))
        _check(busy_lab, folder, job, "2 of 2 ranks got SIGUSR1 on preemption; they ended well")


@pytest.mark.parametrize(("launcher", "times"), [("srun", 1), *_LONG])
def test_what_is_put_back_into_the_queue_goes_on_where_it_saved(
    busy_lab: Lab, shared_directory: Path, launcher: str, times: int
) -> None:
    """Slurm sends SIGTERM to all processes, and kills them later: the ranks have it from Slurm itself."""
    for number in range(times):
        folder = shared_directory / str(number)
        words = ("--requeue", "-t", "5", "--save-before", "20s", "--save-signal", "TERM", "--grace", "15")
        job = _submit(busy_lab, folder, launcher, *words)
        wait_for_files(folder, f"began.{job}.1.*", _RANKS)
        time.sleep(0.5)
        checked(busy_lab.exec(["scontrol", "requeue", job]))
        _wait_until_over(busy_lab, [job])
        step = _check(busy_lab, folder, job, "")
        checked(busy_lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"]))
        wait_for_files(folder, f"began.{job}.2.*", _RANKS)
        checked(_muster(busy_lab, folder)("cancel", job))
        _wait_until_over(busy_lab, [job])
        assert f"0: begins at {step}\n" in _muster(busy_lab, folder)("logs", "--attempt", "2", job).stdout


# Ranks of different speed, which meet now and then: they are at different steps when they are told.
_WITH_LIBRARY = """\
import os, time
import muster
rank, job = os.environ["RANK"], os.environ["SLURM_JOB_ID"]
with muster.world() as world:
    assert 0 < world.time_left() < 300
    for step in range(1, 4000):
        time.sleep(0.01 * (1 + world.rank))
        if step == 1:
            open(f"began.{job}.1.{rank}", "w").close()
        if step % 20 == 0:
            world.barrier()
        if world.should_save():
            open(f"saved.{job}.1.{rank}.{step}", "w").close()
            time.sleep(1)
            break
"""


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "mpirun", "torchrun", "mpirun+torchrun"])
def test_the_library_says_yes_at_the_same_step(busy_lab: Lab, shared_directory: Path, launcher: str) -> None:
    for number in range(_WITH_TORCH):
        folder = shared_directory / str(number)
        folder.mkdir()
        (folder / "library.py").write_text(_WITH_LIBRARY)
        job = _submit(busy_lab, folder, launcher, "-t", "4", "--save-before", "20s", script="library.py")
        wait_for_files(folder, f"began.{job}.1.*", _RANKS)
        checked(_muster(busy_lab, folder)("cancel", "--save", job))
        _check(busy_lab, folder, job, "2 of 2 ranks got SIGUSR1 before it was cancelled; they ended well")
