"""A tiny training that fails at random ends with the very state of one that was left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from finish.faults import final_of
from launch.lab_runs import path_with
from muster.runner import ProgramResult
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

TRAINING = """\
import json, os, sys, time, zipfile
rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
folder, steps, every, fails = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
state, step = 1, 0
if os.environ["MUSTER_CHECKPOINT"]:
    with zipfile.ZipFile(os.environ["MUSTER_CHECKPOINT"]) as file:
        step, state = json.loads(file.read("state"))
print("attempt", attempt, "begins at", step, flush=True)
while step < steps:
    time.sleep(0.02)
    step += 1
    state = (state * 6364136223846793005 + step) % 2**64
    if rank == 0 and step % every == 0:
        with zipfile.ZipFile(f"{folder}/step{step}.pt", "w") as file:
            file.writestr("state", json.dumps([step, state]))
    if len(fails) >= attempt and step == int(fails[attempt - 1]):
        if rank == 0:
            time.sleep(600)  # no rank gets ahead of the failure
        newest = step - step % every
        while newest and not zipfile.is_zipfile(f"{folder}/step{newest}.pt"):
            time.sleep(0.02)
        raise RuntimeError("the same words each time")
if rank == 0:
    print("final", state)
"""


def _train(lab: Lab, folder: Path, *fails: int, every: int = 5) -> ProgramResult:
    (folder / "train.py").write_text(TRAINING)
    (folder / "saved").mkdir()
    words = ("run", "--quiet", "--restart", "9", "--checkpoint", "saved", "-N", "2", "--ntasks-per-node", "1")
    command = (MUSTER, *words, "--", "python3", "train.py", "saved", "60", str(every), *map(str, fails))
    return lab.exec(command, cwd=folder, env={"PATH": path_with()})


def test_it_goes_on_from_the_newest_whole_checkpoint(lab: Lab, shared_directory: Path) -> None:
    result = _train(lab, shared_directory, 17, 33, 52)

    assert result.status == 0, result.stderr
    assert f"0: final {final_of(60)}" in result.stdout
    began = [int(line.rpartition(" ")[2]) for line in result.stdout.splitlines() if line.startswith("0: attempt")]
    assert began[0] == 0
    assert began == sorted(began)
    assert len(began) == 4
    assert began[-1] >= 45


def test_the_same_error_with_no_new_checkpoint_ends_it(lab: Lab, shared_directory: Path) -> None:
    result = _train(lab, shared_directory, 25, 22, 22, every=20)

    assert result.status == 1, result.stderr
    assert "the same first error came twice, and no new checkpoint in between" in result.stderr
    assert "0: attempt 3" not in result.stdout


def test_a_folder_that_cannot_be_written_is_said_before_anything_waits(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "file").write_text("x")
    words = ("submit", "--checkpoint", "file/saved", "--restart", "1", "--", "hostname")
    result = lab.exec((MUSTER, *words), cwd=shared_directory, env={"PATH": path_with()})

    assert result.status == 2
    assert f"--checkpoint {shared_directory}/file/saved is not there, and cannot be made in" in result.stderr
