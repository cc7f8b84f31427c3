"""Random faults at random times: each is named, the same ranks start again, and the training ends as if nothing was."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from finish.faults import Fault, random_faults
from launch.lab_runs import path_with
from muster.runner import checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_STEPS = 30
_SEED = 16
_COUNT = int(os.environ.get("MUSTER_TEST_FAULTS", "200"))
_HEALTHY = int(os.environ.get("MUSTER_TEST_HEALTHY", "500"))

_TRAINING = """\
import json, os, sys, time, zipfile
rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
print("begins %d %.3f" % (attempt, time.time()), flush=True)
state, step = 1, 0
if os.environ["MUSTER_CHECKPOINT"]:
    with zipfile.ZipFile(os.environ["MUSTER_CHECKPOINT"]) as file:
        step, state = json.loads(file.read("state"))
def fail():
    print("fails %.3f" % time.time(), flush=True)
    STATEMENT
while step < STEPS:
    time.sleep(0.01)
    step += 1
    state = (state * 6364136223846793005 + step) % 2**64
    if rank == 0 and step % 5 == 0:
        with zipfile.ZipFile("saved/step%d.pt" % step, "w") as file:
            file.writestr("state", json.dumps([step, state]))
    if attempt == 1 and rank == RANK and step == STEP:
        fail()
    if attempt == 1 and rank != RANK and step == STEPS - 1:
        time.sleep(60)
print("final", state)
"""


def _final() -> int:
    state = 1
    for step in range(1, _STEPS + 1):
        state = (state * 6364136223846793005 + step) % 2**64
    return state


def _suffer(lab: Lab, folder: Path, fault: Fault, launcher: str) -> float:
    """One run with one fault; how long the ranks were away."""
    words = {"STATEMENT": fault.statement, "STEPS": str(_STEPS), "STEP": str(fault.step), "RANK": str(fault.rank)}
    text = _TRAINING
    for name in ("STATEMENT", "STEPS", "STEP"):
        text = re.sub(rf"\b{name}\b", words[name], text)
    text = re.sub(r"(?<!\")\bRANK\b(?!\")", words["RANK"], text)
    (folder / "train.py").write_text(text)
    (folder / "saved").mkdir()
    asked = ("--restart", "2", "--checkpoint", "saved", "-N", "4", "--ntasks-per-node", "1", "--launcher", launcher)
    result = lab.exec(
        (MUSTER, "run", "--quiet", *asked, "--", "python3", "train.py"), cwd=folder, env={"PATH": path_with()}
    )

    told = f"{fault}\n{result.stdout}\n{result.stderr}"
    assert result.status == 0, told
    assert f"muster: attempt 1 ended: rank {fault.rank} on node{fault.rank + 1}: {fault.words}" in result.stderr, told
    assert result.stderr.count("muster: attempt") == 1, told
    finals = re.findall(r"(?:^|>|\] |: )final ([0-9]+)", result.stdout, re.MULTILINE)
    assert finals.count(str(_final())) == 4, told
    assert set(finals) == {str(_final())}, told
    failed = float(re.findall(r"fails ([0-9.]+)", result.stdout)[0])
    return max(float(when) for when in re.findall(r"begins 2 ([0-9.]+)", result.stdout)) - failed


def _suffer_all(lab: Lab, folder: Path, faults: list[Fault], launcher: str) -> None:
    away = []
    for number, fault in enumerate(faults):
        own = folder / str(number)
        own.mkdir()
        away.append(_suffer(lab, own, fault, launcher))
    away.sort()
    print(f"{launcher}: {len(away)} faults, away {away[0]:.2f} to {away[-1]:.2f} s, median {away[len(away) // 2]:.2f}")


def test_a_few_random_faults(lab: Lab, shared_directory: Path) -> None:
    _suffer_all(lab, shared_directory, random_faults(4, ranks=4, steps=_STEPS - 1, seed=_SEED), "srun")


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "mpirun", pytest.param("torchrun", marks=pytest.mark.torch)])
def test_many_random_faults(lab: Lab, shared_directory: Path, launcher: str) -> None:
    faults = random_faults(_COUNT, ranks=4, steps=_STEPS - 1, seed=_SEED + 1)
    _suffer_all(lab, shared_directory, faults, launcher)


@pytest.mark.long
def test_a_host_whose_tmp_is_full_ends_no_job(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    lab = new_lab("-N", "4")
    for host in ("node1", "node3"):
        checked(lab.muster("fault", "fill-tmp", host))

    _suffer_all(lab, shared_directory, random_faults(4, ranks=4, steps=_STEPS - 1, seed=_SEED + 2), "srun")


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_healthy_runs_are_never_started_again(lab: Lab, shared_directory: Path, launcher: str) -> None:
    (shared_directory / "rank.sh").write_text('echo "$MUSTER_ATTEMPT" >>"began.$RANK"\n')
    size = ("-N", "4", "--ntasks-per-node", "1", "--launcher", launcher)
    for number in range(_HEALTHY):
        words = (MUSTER, "run", "--quiet", "--restart", "3", *size, "--", "sh", "rank.sh")
        result = lab.exec(words, cwd=shared_directory, env={"PATH": path_with()})
        assert (result.status, "attempt" in result.stderr) == (0, False), (number, result.stderr)
    for rank in range(4):
        assert _read(shared_directory / f"began.{rank}").split() == ["1"] * _HEALTHY


@pytest.mark.long
def test_a_controller_that_is_away_for_a_minute_ends_nothing(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "2")
    (shared_directory / "rank.sh").write_text(
        'echo "$MUSTER_ATTEMPT" >>"began.$RANK"\nsleep 90\necho done >>"began.$RANK"\n'
    )
    words = ("run", "--quiet", "--restart", "3", "-N", "2", "--ntasks-per-node", "1", "--", "sh", "rank.sh")
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(lab.exec, (MUSTER, *words), cwd=shared_directory, env={"PATH": path_with()}, timeout_s=300)
        _wait_for(lambda: all(_read(shared_directory / f"began.{rank}") for rank in range(2)))
        checked(lab.muster("fault", "stop-controller"))
        time.sleep(60)
        checked(lab.muster("fault", "restore", "controller"))
        result = ends.result()

    assert result.status == 0, result.stderr
    assert [_read(shared_directory / f"began.{rank}") for rank in range(2)] == ["1\ndone\n"] * 2


@pytest.mark.long
@pytest.mark.parametrize("fault", ["kill-node", "pause-node", "cut-link"])
def test_a_node_that_slurm_calls_dead_is_replaced_by_the_spare(
    new_lab: Callable[..., Lab], shared_directory: Path, fault: str
) -> None:
    lab = new_lab("-N", "4")
    (shared_directory / "rank.py").write_text(
        'import os, time\nprint("begins %.3f" % time.time(), flush=True)\n'
        'time.sleep(120 if os.environ["MUSTER_ATTEMPT"] == "1" else 0)\n'
    )

    def muster(*words: str) -> str:
        env = {"PATH": path_with()}
        words = ("env", f"XDG_STATE_HOME={shared_directory / 'state'}", MUSTER, *words)
        return checked(lab.exec(words, cwd=shared_directory, env=env)).stdout

    size = ("--spares", "1", "-N", "3", "--ntasks-per-node", "1")
    job = muster("submit", "--quiet", *size, "--", "python3", "rank.py").strip()
    (run,) = (shared_directory / "muster-runs").iterdir()
    _wait_for(lambda: "begins" in _read(run / "logs/node2.log"))
    checked(lab.muster("fault", fault, "node2"))
    _wait_for(lambda: "node2" in lab.exec(["sinfo", "-h", "-N", "-o", "%N", "-t", "down"]).stdout)
    down = time.time()
    muster("logs", "-f", job)

    story = muster("why", job)
    assert "attempt 1: node2 failed; node2 is lost; the same ranks start again on node1,node3,node4" in story
    began = [float(_read(run / f"logs/attempt-2/{name}.log").split()[-1]) for name in ("node1", "node3", "node4")]
    print(f"spare in use {max(began) - down:.2f} s after Slurm said that the host is down")


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _wait_for(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
