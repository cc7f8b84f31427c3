"""Guards that `muster why` names the rank that failed first, its status and its last words, under every launcher."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from launch.lab_runs import AGENTS_OF_MPIRUN
from muster.runner import checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_FAIL = 'echo "rank $RANK begins"; [ "$RANK" = 1 ] || sleep 60; sleep 1; echo "last words"; {ending}'


@pytest.mark.parametrize(
    "launcher",
    [
        "srun",
        "mpirun",
        pytest.param("torchrun", marks=pytest.mark.torch),
        AGENTS_OF_MPIRUN,
    ],
)
@pytest.mark.parametrize(("ending", "status"), [("exit 7", 7), ("kill -KILL $$", 137)], ids=["exits", "killed"])
def test_the_rank_that_failed_first_is_named(
    lab: Lab, shared_directory: Path, launcher: str, ending: str, status: int
) -> None:
    words = ["submit", "--quiet", "--launcher", launcher, "-N", "2", "--ntasks-per-node", "1"]
    argv = [MUSTER, *words, "--", "sh", "-c", _FAIL.format(ending=ending)]
    path = os.pathsep.join([str(Path(MUSTER).parent), os.environ["PATH"]])  # the python of the tests has torch
    job = checked(lab.exec(argv, cwd=shared_directory, env={"PATH": path})).stdout.strip()
    told = _when_over(lab, job)
    assert (told["first_failure"]["ranks"], told["first_failure"]["status"]) == ([1], status), told
    own = [line for line in told["last_lines"] if line != "Killed"]  # a shell's word on its child
    assert own[-2:] == ["rank 1 begins", "last words"]
    assert told["phase"] == "ended badly"


def test_a_known_error_in_its_last_words_is_explained(lab: Lab, shared_directory: Path) -> None:
    said = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    argv = [MUSTER, "submit", "--quiet", "-N", "1", "--", "sh", "-c", f"echo '{said}' >&2; exit 1"]
    job = checked(lab.exec(argv, cwd=shared_directory)).stdout.strip()
    told = _when_over(lab, job)
    assert told["known_error"]["id"] == "cuda-ecc"
    shown = checked(lab.exec([MUSTER, "why", job])).stdout
    assert "known: the GPU's memory is faulty" in shown
    assert "hint: exclude the node (--exclude)" in shown


def _when_over(lab: Lab, job: str) -> dict[str, Any]:
    """What `why --json` says once the job has ended."""
    for _ in range(300):
        found: dict[str, Any] = json.loads(checked(lab.exec([MUSTER, "why", "--json", job])).stdout)[0]
        if found["phase"] not in {"waiting", "running"}:
            return found
        time.sleep(0.3)
    raise AssertionError(f"job {job} has not ended")
