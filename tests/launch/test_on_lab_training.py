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


def test_two_ranks_on_this_machine_agree_with_one_process(alone: Path, tmp_path: Path) -> None:
    assert distance(alone, train_here(SCRIPT, tmp_path / "here.pt", ranks=2)) <= CLOSE_ENOUGH


# A rank costs five seconds of a core: one launcher of each kind has two on a host, `make test-long` lets all have two.
@pytest.mark.parametrize(
    ("launcher", "on_a_host"),
    [
        ("srun", 2),
        ("torchrun", 1),
        ("mpirun", 1),
        ("mpirun+torchrun", 2),
        pytest.param("torchrun", 2, marks=pytest.mark.long),
        pytest.param("mpirun", 2, marks=pytest.mark.long),
    ],
)
def test_ranks_on_two_hosts_agree_with_one_process(
    lab: Lab, alone: Path, shared_directory: Path, launcher: str, on_a_host: int
) -> None:
    weights = shared_directory / "four.pt"
    command: Sequence[str] = ("--", sys.executable, str(SCRIPT), *STEPS, "--out", str(weights))
    size = ("--launcher", launcher, "-N", "2", "--ntasks-per-node", str(on_a_host))
    result = muster_run(lab, shared_directory, *size, *command, timeout_s=200)

    assert result.status == 0, result.stderr
    assert f"ranks {2 * on_a_host}" in result.stdout
    assert distance(alone, weights) <= CLOSE_ENOUGH


@pytest.mark.long  # it tells that the comparison above can fail, and costs what that costs
def test_without_the_all_reduce_the_weights_do_not_agree(alone: Path, tmp_path: Path) -> None:
    text = SCRIPT.read_text()
    broken = text.replace("        model = DistributedDataParallel(", "        DistributedDataParallel(")
    assert broken != text
    (tmp_path / "broken.py").write_text(broken)

    assert distance(alone, train_here(tmp_path / "broken.py", tmp_path / "broken.pt", ranks=2)) > CLOSE_ENOUGH
