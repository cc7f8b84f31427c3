"""The same script under every launcher ends with the weights of one process that saw the whole batch.

The script reads only torchrun's variables. A copy of it without the all-reduce has to fail the same comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.runner import checked, run
from plugins.labs import MUSTER, ROOT, Lab

from .lab_runs import muster_run

pytestmark = [pytest.mark.lab, pytest.mark.torch]

SCRIPT = ROOT / "examples" / "train_env.py"
STEPS = ("--steps", "60")  # the weights of 240 agree no better
CLOSE_ENOUGH = 1e-5
ON_TWO_HOSTS = ("-N", "2", "--ntasks-per-node", "2")


@pytest.fixture(scope="module")
def alone(scratch: Path) -> Path:
    """The weights of one process."""
    weights = scratch / "one-process.pt"
    checked(run([sys.executable, str(SCRIPT), *STEPS, "--out", str(weights)], timeout_s=200))
    return weights


def distance(weights: Path, others: Path) -> float:
    """The largest difference of any two weights."""
    import torch

    one, other = torch.load(weights), torch.load(others)
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def train_here(script: Path, weights: Path, *, ranks: int) -> Path:
    """So many ranks on this machine."""
    argv = [MUSTER, "run", "--here", "--quiet", "--ntasks-per-node", str(ranks), "--", sys.executable]
    checked(run([*argv, str(script), *STEPS, "--out", str(weights)], timeout_s=200))
    return weights


def test_four_ranks_on_this_machine_agree_with_one_process(alone: Path, tmp_path: Path) -> None:
    assert distance(alone, train_here(SCRIPT, tmp_path / "here.pt", ranks=4)) <= CLOSE_ENOUGH


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_four_ranks_on_two_hosts_agree_with_one_process(
    lab: Lab, alone: Path, shared_directory: Path, launcher: str
) -> None:
    weights = shared_directory / "four.pt"
    command: Sequence[str] = ("--", sys.executable, str(SCRIPT), *STEPS, "--out", str(weights))
    result = muster_run(lab, shared_directory, "--launcher", launcher, *ON_TWO_HOSTS, *command, timeout_s=200)

    assert result.status == 0, result.stderr
    assert "ranks 4" in result.stdout
    assert distance(alone, weights) <= CLOSE_ENOUGH


def test_without_the_all_reduce_the_weights_do_not_agree(alone: Path, tmp_path: Path) -> None:
    text = SCRIPT.read_text()
    broken = text.replace("        model = DistributedDataParallel(", "        DistributedDataParallel(")
    assert broken != text
    (tmp_path / "broken.py").write_text(broken)

    assert distance(alone, train_here(tmp_path / "broken.py", tmp_path / "broken.pt", ranks=2)) > CLOSE_ENOUGH
