"""On a real cluster: the store of a closed job lets the ranks of an unchanged script meet, and no stranger in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.runner import run
from plugins.labs import MUSTER, Lab

from .lab_runs import path_with
from .strangers import TRAIN, hold_a_door

pytestmark = pytest.mark.torch


@pytest.mark.lab
@pytest.mark.parametrize(
    "launcher",
    # Agents of mpirun hold the door as agents of srun do, and have the secret as ranks of mpirun do.
    ["srun", "torchrun", "mpirun", pytest.param("mpirun+torchrun", marks=pytest.mark.long), "mpirun.mpich"],
)
def test_the_ranks_meet_and_strangers_do_not(lab: Lab, shared_directory: Path, mpich: Path, launcher: str) -> None:
    path = path_with(mpich) if launcher.endswith(".mpich") else path_with()
    hold_a_door(lab, shared_directory, ["--launcher", launcher.removesuffix(".mpich")], env={"PATH": path})


@pytest.mark.parametrize("launcher", ["local", "torchrun"])
def test_on_this_machine_too(tmp_path: Path, launcher: str) -> None:
    """Under torchrun the door ended with a traceback, for want of its secret, and the ranks waited for ever."""
    (tmp_path / "train.py").write_text(TRAIN)
    words = ["run", "--here", "--closed", "--ntasks-per-node", "2", "--launcher", launcher]

    said = run([str(MUSTER), *words, "--", sys.executable, "train.py", "train.py"], cwd=tmp_path, timeout_s=120)

    assert said.stdout.count("met 2 127.0.0.1") == 2, said.stderr
