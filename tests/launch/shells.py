"""Run a prologue as a task does, under each POSIX shell that images hold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from muster.render.parts import compose
from muster.runner import ProgramResult, run
from plugins.wide import sampled

SHELLS = (("dash",), ("busybox", "sh"), ("bash", "--posix"))
each_shell = pytest.mark.parametrize("shell", sampled(SHELLS, keep=len(SHELLS)), ids=lambda words: words[0])
"""`make test-fast` has the first alone."""
START = ("directory", "size_as_planned", "address_asked", "gpus", "cpus", "threads", "cpus_asked", "publish")
SLURM_RANK = (
    "stop",
    "meeting",
    "port_reserved",
    "rank_slurm",
    "tasks_of_node",
    *START,
    "jax",
    "ends",
    "left",
    "stay",
    "go_counted_rank",
)
TORCHRUN_RANK = ("slurm_names", "jax_beside_agent", "jax", "worker")
MPI_RANK = (
    "stop",
    "meeting",
    "rank_mpi",
    *START,
    "one_gpu",
    "slurm_names",
    "jax",
    "ends",
    "left",
    "go_mpi_rank",
)


def start(
    parts: Sequence[str],
    environment: Mapping[str, str],
    command: Sequence[str] = ("env", "-0"),
    shell: Sequence[str] = SHELLS[0],
    without: str = "",
) -> ProgramResult:
    """The prologue of `parts`, less `without`, then the command, as `sh -c TEXT muster COMMAND…` and nothing else."""
    found = shutil.which(shell[0])
    assert found is not None, f"{shell[0]} is missing"
    path, text = os.environ["PATH"], compose(parts)
    assert without in text
    text = text.replace(without, "")
    return run([found, *shell[1:], "-c", text, "muster", *command], env={"PATH": path, **environment})


def told(result: ProgramResult) -> dict[str, str]:
    """The environment that the command saw, from `env -0`."""
    assert result.ok, result.stderr
    return dict(item.split("=", 1) for item in result.stdout.split("\0") if item)


def step(
    rank: int = 0,
    size: int = 8,
    local_rank: int = 0,
    node: int = 0,
    per_node: str = "4(x2)",
    nodes: str = "node[1-2]",
    node_count: int = 2,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables that slurmstepd gives a task."""
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "3",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NUM_NODES": str(node_count),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_NTASKS": "999",
        "SLURM_NNODES": "999",
        "SLURM_JOB_NODELIST": "elsewhere[1-9]",
        **(more or {}),
    }


def fake_topology(folder: Path, siblings: Mapping[int, str], mask: str) -> dict[str, str]:
    """/proc and /sys of a machine with these hardware threads and this mask; the variables that point there."""
    (folder / "proc" / "self").mkdir(parents=True, exist_ok=True)
    (folder / "proc" / "self" / "status").write_text(
        f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{mask}\nMems:\t1\n"
    )
    cpus = folder / "sys" / "devices" / "system" / "cpu"
    for number, text in siblings.items():
        topology = cpus / f"cpu{number}" / "topology"
        topology.mkdir(parents=True, exist_ok=True)
        first = text.partition(",")[0]
        (topology / "core_id").write_text(f"{first}\n")
        (topology / "physical_package_id").write_text("0\n")
    (cpus / "online").write_text(f"0-{max(siblings)}\n")
    return {"MUSTER_PROC": str(folder / "proc"), "MUSTER_SYS": str(folder / "sys")}
