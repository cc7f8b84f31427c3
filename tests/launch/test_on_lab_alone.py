"""On a real cluster: ranks that never met are named at the end of a run and by `why`; so is a disk that was full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import muster_run, path_with, wait_until_ended

pytestmark = pytest.mark.lab

# A torch of its own, so that the ranks start in no time: what matters is what stands in the source, and who connects.
SCRIPT = """\
import os, socket, sys, time
import torch, torch.distributed as dist
if "--join" in sys.argv:
    rank, host, port = int(os.environ["RANK"]), os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    server = socket.create_server(("", port)) if rank == 0 else None
    for _ in range(300):
        try:
            client = socket.create_connection((host, port))
            break
        except OSError:
            time.sleep(0.1)
    for _ in range(2 if server else 0):
        server.accept()
print("done")
"""
ALONE = "the 2 ranks have ended, and Muster saw no connection to node1:"
SIZE = ("-N", "2", "--ntasks-per-node", "1")
MUCH = "i=0; while [ $i -lt 20000 ]; do echo line $i of rank $RANK with some more words; i=$((i + 1)); done"


@pytest.fixture
def script(shared_directory: Path) -> Path:
    package = shared_directory / "torch"
    (package / "distributed").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "distributed" / "__init__.py").touch()
    (shared_directory / "train.py").write_text(SCRIPT)
    return shared_directory


def ended_job(lab: Lab, folder: Path, *words: str) -> str:
    argv = [MUSTER, "submit", "--quiet", *SIZE, *words]
    job = checked(lab.exec(argv, cwd=folder, env={"PATH": path_with()})).stdout.strip()
    assert wait_until_ended(lab, job) == "COMPLETED"
    return job


def why(lab: Lab, job: str) -> tuple[str, dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(checked(lab.exec([MUSTER, "why", "--json", job])).stdout)
    return checked(lab.exec([MUSTER, "why", job])).stdout, found[0]


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_run_whose_ranks_never_met_says_so_at_its_end(lab: Lab, script: Path, launcher: str) -> None:
    alone = muster_run(lab, script, "--launcher", launcher, *SIZE, "--", "python", "train.py")
    joined = muster_run(lab, script, "--launcher", launcher, *SIZE, "--", "python", "train.py", "--join")

    assert (alone.status, joined.status) == (0, 0), alone.stderr + joined.stderr
    assert ALONE in alone.stderr
    assert "saw no connection" not in joined.stderr


def test_why_says_it_of_a_job(lab: Lab, script: Path) -> None:
    words = ("--", "python", "train.py")
    shown, told = why(lab, ended_job(lab, script, *words))
    quiet, nothing = why(lab, ended_job(lab, script, *words, "--join"))

    assert f"warning: {ALONE}" in shown
    assert "hint: the script has to join its ranks" in shown
    assert told["warnings"][0].startswith(f"warning: {ALONE}")
    assert "warning" not in quiet
    assert nothing["warnings"] == []


@pytest.mark.parametrize(
    "launcher", ["srun", "mpirun", pytest.param("torchrun", marks=[pytest.mark.torch, pytest.mark.long])]
)
def test_a_disk_that_is_full_at_the_end_is_named(lab: Lab, shared_directory: Path, launcher: str) -> None:
    """The run directory lies on a disk of 400 KiB, which node1 alone has: it submits the job, and runs its ranks."""
    runs = shared_directory / "muster-runs"
    runs.mkdir()
    checked(lab.exec(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(runs)], host="node1"))
    words = ["-N", "1", "-w", "node1", "--launcher", launcher, "--", "sh", "-c", MUCH]
    try:
        argv = [MUSTER, "submit", "--quiet", *words]
        job = checked(lab.exec(argv, cwd=shared_directory, host="node1", env={"PATH": path_with()})).stdout.strip()
        assert wait_until_ended(lab, job) == "COMPLETED"  # lost lines do not make a training that ended well a failure
        (run,) = checked(lab.exec(["ls", str(runs)], host="node1")).stdout.split()
        logs = checked(lab.exec(["ls", "-A", f"{runs}/{run}/logs"], host="node1")).stdout.split()
        told = checked(lab.exec([MUSTER, "why", job], host="node1", cwd=shared_directory)).stdout
    finally:
        lab.exec(["umount", "-l", str(runs)], host="node1")
    assert f"warning: the disk of {runs}/{run}/logs takes no more" in told
    assert ".room" not in logs
