"""The same training script inside an image, on four hosts under every launcher, ends with the weights of one process
outside. A real Apptainer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.runner import checked, run
from plugins.labs import ROOT, Lab

from .conftest import Images, words_with_torch
from .test_on_lab import muster_run

pytestmark = [pytest.mark.lab, pytest.mark.torch, pytest.mark.long]

SCRIPT = ROOT / "examples/train_env.py"
CLOSE_ENOUGH = 1e-5


@pytest.fixture(scope="module")
def alone(scratch: Path) -> Path:
    """The weights of one process on this machine, in no image."""
    weights = scratch / "outside.pt"
    checked(run([sys.executable, str(SCRIPT), "--out", str(weights)], timeout_s=200))
    return weights


def distance(weights: Path, others: Path) -> float:
    """The largest difference of any two weights."""
    import torch

    one, other = torch.load(weights), torch.load(others)
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize(
    ("launcher", "form"),
    [
        *(("srun", "sif"), ("srun", "sandbox"), ("torchrun", "sandbox")),
        *(("mpirun", "sandbox"), ("mpirun+torchrun", "sandbox")),
    ],
)
def test_four_hosts_in_an_image_agree_with_one_process_outside(
    lab: Lab, images: Images, alone: Path, shared_directory: Path, launcher: str, form: str
) -> None:
    weights = shared_directory / f"{launcher}-{form}.pt"
    words = ("--launcher", launcher, "-N", "4", *words_with_torch(images.form(form)))
    result = muster_run(
        lab, images, shared_directory, *words, "--", str(SCRIPT), "--out", str(weights), env=_own(shared_directory)
    )

    assert result.status == 0, result.stderr
    assert "ranks 4" in result.stdout
    assert distance(alone, weights) <= CLOSE_ENOUGH


def _own(folder: Path) -> dict[str, str]:
    """The login host of every lab has the machine's /tmp, where Open MPI takes an older lab's folder for its own."""
    return {"TMPDIR": str(folder)}
