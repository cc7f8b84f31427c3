"""`--save-before` on a lab: the ranks get the signal, all of them and nothing else, and save at one step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with, wait_for_files, wait_until_ended
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

from .saving import TRAINING, saved_steps

pytestmark = pytest.mark.lab

_LAUNCHERS = [
    "srun",
    "mpirun",
    pytest.param("torchrun", marks=pytest.mark.torch),
    pytest.param("mpirun+torchrun", marks=[pytest.mark.torch, pytest.mark.long]),
]


def _muster(lab: Lab, folder: Path) -> Callable[..., ProgramResult]:
    (folder / "train.py").write_text(TRAINING)
    (folder / "saved").mkdir(exist_ok=True)

    def start(*words: str) -> ProgramResult:
        command = ["env", f"XDG_STATE_HOME={folder / 'state'}", MUSTER, *words]
        return lab.exec(command, cwd=folder, env={"PATH": path_with()})

    return start


def _submit(
    muster: Callable[..., ProgramResult], *words: str, command: tuple[str, ...] = ("python3", "train.py")
) -> str:
    size = ("-N", "2", "--ntasks-per-node", "2", "--save-before", "30s")
    return checked(muster("submit", "--quiet", *size, *words, "--", *command)).stdout.strip()


def _saved_at_one_step(folder: Path, job: str) -> None:
    steps = saved_steps(folder, job)
    assert set(steps) == {0, 1, 2, 3}
    assert len({step for rank in steps.values() for step in rank}) == 1
    assert all(len(each) == 1 for each in steps.values())


@pytest.mark.parametrize("launcher", _LAUNCHERS)
def test_a_job_saves_before_it_is_cancelled(lab: Lab, shared_directory: Path, launcher: str) -> None:
    muster = _muster(lab, shared_directory)
    job = _submit(muster, "-t", "5", "--launcher", launcher)
    wait_for_files(shared_directory, f"began.{job}.1.*", 4)

    cancelled = checked(muster("cancel", "--save", job))

    words = "4 of 4 ranks got SIGUSR1 before it was cancelled"
    assert f"job {job}: {words}, and have ended" in cancelled.stderr
    _saved_at_one_step(shared_directory, job)
    assert f"attempt 1: {words}; they ended well" in muster("why", job).stdout


def test_a_run_looks_at_the_clock_itself(lab: Lab, shared_directory: Path) -> None:
    muster = _muster(lab, shared_directory)
    size = ("-N", "2", "--ntasks-per-node", "2", "-t", "1", "--save-before", "52s")

    result = muster("run", "--quiet", *size, "--", "python3", "train.py")

    assert result.status == 0, result.stderr
    assert "muster: 4 of 4 ranks got SIGUSR1 before the time limit" in result.stderr
    (job,) = {path.name.split(".")[1] for path in shared_directory.glob("began.*")}
    _saved_at_one_step(shared_directory, job)


@pytest.mark.long
@pytest.mark.parametrize("launcher", _LAUNCHERS)
def test_slurm_tells_a_queued_job_of_its_limit(lab: Lab, shared_directory: Path, launcher: str) -> None:
    muster = _muster(lab, shared_directory)
    job = _submit(muster, "-t", "1", "--launcher", launcher)

    assert wait_until_ended(lab, job) == "COMPLETED"
    _saved_at_one_step(shared_directory, job)
    assert "attempt 1: 4 of 4 ranks got SIGUSR1 before the time limit; they ended well" in muster("why", job).stdout


def test_a_script_that_does_not_handle_the_signal_is_told_so(lab: Lab, shared_directory: Path) -> None:
    muster = _muster(lab, shared_directory)
    (shared_directory / "rank.sh").write_text(': >"began.$SLURM_JOB_ID.1.$RANK"\nexec sleep 100\n')
    job = _submit(muster, "-t", "5", command=("sh", "rank.sh"))
    wait_for_files(shared_directory, f"began.{job}.1.*", 4)

    cancelled = muster("cancel", "--save", job)

    sentence = "no rank handles SIGUSR1: none was told to save before it was cancelled"
    assert f"warning: job {job}: {sentence}" in cancelled.stderr
    wait_until_ended(lab, job)
    assert sentence in muster("why", job).stdout


def test_a_job_without_the_option_is_not_cancelled_but_refused(lab: Lab, shared_directory: Path) -> None:
    muster = _muster(lab, shared_directory)
    job = checked(muster("submit", "--quiet", "-t", "5", "--", "sleep", "60")).stdout.strip()
    checked(lab.exec(["sh", "-c", f"until squeue -h -j {job} -t R | grep -q .; do sleep 0.1; done"]))

    refused = muster("cancel", "--save", job)

    assert refused.status == 2
    assert f"job {job} was not submitted with --save-before" in refused.stderr
    checked(muster("cancel", job))


def test_other_processes_of_a_rank_get_nothing(lab: Lab, shared_directory: Path) -> None:
    """A shell around it that would die, and a child that handles the signal too."""
    muster = _muster(lab, shared_directory)
    (shared_directory / "child.py").write_text(
        "import os, signal, sys, time\n"
        "heard = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))\n"
        "child = os.fork()\n"
        "me = 'child' if child == 0 else 'rank'\n"
        "name = f'{me}.{os.environ[\"RANK\"]}'\n"
        "open(f'began.{os.environ[\"SLURM_JOB_ID\"]}.1.{name}', 'w').close()\n"
        "for _ in range(1200):\n"
        "    time.sleep(0.05)\n"
        "    if heard: open('heard.' + name, 'w').close(); break\n"
        "    if not child and os.path.exists('heard.rank.' + os.environ['RANK']): break\n"
        "if child: os.wait()\n"
    )
    job = _submit(muster, "-t", "5", command=("bash", "-c", "python3 child.py; echo after"))
    wait_for_files(shared_directory, f"began.{job}.1.*", 8)

    checked(muster("cancel", "--save", job))

    assert {path.name for path in shared_directory.glob("heard.*")} == {f"heard.rank.{rank}" for rank in range(4)}
    assert muster("logs", job).stdout.count("after") == 4
