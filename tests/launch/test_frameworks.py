"""Guards that programs written for Accelerate and for Lightning run unchanged under every launcher.

Both read torchrun's variables alone. That Slurm is there too must not lead them astray.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from muster.runner import ProgramResult, run
from plugins.labs import MUSTER, Lab

from .lab_runs import muster_run

pytestmark = [pytest.mark.lab, pytest.mark.torch]

PROGRAMS = Path(__file__).with_name("frameworks")
WORDS = {"accelerate": (), "lightning": ("2", "1")}


def places(result: ProgramResult) -> list[tuple[int, ...]]:
    """(rank, size, local rank) of each rank that came to the end."""
    assert result.ok, result.stdout + result.stderr
    found = re.findall(r"place (\d+) (\d+) (\d+)", result.stdout + result.stderr)
    return sorted(tuple(map(int, each)) for each in found)


@pytest.mark.parametrize(
    ("launcher", "framework"),
    # Every launcher but one, and every framework: Lightning's ranks cost five seconds each before they begin.
    [
        ("srun", "lightning"),
        ("torchrun", "accelerate"),
        ("mpirun", "accelerate"),
        pytest.param("mpirun+torchrun", "lightning", marks=pytest.mark.long),
        pytest.param("srun", "accelerate", marks=pytest.mark.long),
        pytest.param("torchrun", "lightning", marks=pytest.mark.long),
        pytest.param("mpirun", "lightning", marks=pytest.mark.long),
        pytest.param("mpirun+torchrun", "accelerate", marks=pytest.mark.long),
    ],
)
def test_a_frameworks_program_runs_unchanged_over_two_hosts(
    lab: Lab, shared_directory: Path, framework: str, launcher: str
) -> None:
    pytest.importorskip(framework)
    program = str(shutil.copy(PROGRAMS / f"with_{framework}.py", shared_directory))
    size = ("-N", "2", "--ntasks-per-node", "1", "--launcher", launcher)

    result = muster_run(lab, shared_directory, *size, "--", sys.executable, program, *WORDS[framework])

    assert places(result) == [(0, 2, 0), (1, 2, 0)]


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_a_frameworks_program_meets_behind_the_door_of_a_closed_job(
    lab: Lab, shared_directory: Path, framework: str, launcher: str
) -> None:
    pytest.importorskip(framework)
    program = str(shutil.copy(PROGRAMS / f"with_{framework}.py", shared_directory))
    size = ("-N", "2", "--ntasks-per-node", "1", "--launcher", launcher, "--closed")

    result = muster_run(lab, shared_directory, *size, "--", sys.executable, program, *WORDS[framework])

    assert places(result) == [(0, 2, 0), (1, 2, 0)]


@pytest.mark.parametrize(
    ("framework", "words"), [("accelerate", ()), pytest.param("lightning", ("1", "2"), marks=pytest.mark.long)]
)
def test_a_frameworks_program_runs_unchanged_on_this_machine(framework: str, words: tuple[str, ...]) -> None:
    pytest.importorskip(framework)
    program = str(PROGRAMS / f"with_{framework}.py")

    result = run(
        [str(MUSTER), "run", "--here", "--ntasks-per-node", "2", "--", sys.executable, program, *words], timeout_s=120
    )

    assert places(result) == [(0, 2, 0), (1, 2, 1)]


@pytest.mark.parametrize("words", [("--launcher", "mpirun"), ("--mpi", "pmix")], ids=["mpirun", "srun"])
def test_a_program_of_mpi4pys_finds_all_ranks(lab: Lab, shared_directory: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("mpi4py")
    program = shared_directory / "sum.py"
    program.write_text(
        "from mpi4py import MPI\nw = MPI.COMM_WORLD\nprint(f'sum {w.allreduce(w.Get_rank() + 1)}', flush=True)\n"
    )

    result = muster_run(lab, shared_directory, "-N2", "--ntasks-per-node=2", *words, "--", sys.executable, str(program))

    assert result.stdout.count("sum 10") == 4, result.stderr
