"""The conformance of every launcher of the registry on a real Slurm: who the ranks are, and how they end."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from launch.lab_runs import muster_run
from muster.launchers import launcher_named, launcher_names
from muster.model.plan import Engine
from plugins.labs import Lab

pytestmark = pytest.mark.lab

_SAYS = 'echo "{\\"rank\\": $RANK, \\"size\\": $WORLD_SIZE, \\"local\\": $LOCAL_RANK, \\"node\\": $GROUP_RANK}"'


# tests/launch asks the same of these, and more.
_ASKED_ELSEWHERE = {"srun", "mpirun", "torchrun", "mpirun+torchrun"}


def _launchers() -> list[Any]:
    """Those that start ranks in Slurm without a part that a lab does not have; an agent needs torch."""
    chosen: list[Any] = []
    for name in launcher_names():
        launcher = launcher_named(name)
        if launcher.starts_ranks and Engine.SLURM in launcher.engines and not launcher.stand_in:
            marks = [pytest.mark.torch] if launcher.agent else []
            marks += [pytest.mark.long] if name in _ASKED_ELSEWHERE else []
            chosen.append(pytest.param(name, marks=marks))
    return chosen


@pytest.fixture(autouse=True)
def needs_the_agents_package(request: pytest.FixtureRequest) -> None:
    """NVIDIA's agent is a package of its own, which only long tests install."""
    name = request.node.callspec.params["name"]
    if name == "ft" and find_spec("nvidia_resiliency_ext") is None:
        pytest.skip("by design: nvidia-resiliency-ext is not installed")


@pytest.mark.parametrize("name", _launchers())
def test_four_ranks_on_two_hosts(lab: Lab, shared_directory: Path, name: str) -> None:
    size = ("--launcher", name, "-N", "2", "--ntasks-per-node", "2")
    result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", _SAYS)

    assert result.ok, result.stderr
    lines = [line for line in result.stdout.splitlines() if '"size"' in line]
    ranks = sorted((json.loads(line[line.index("{") :]) for line in lines), key=lambda rank: int(rank["rank"]))
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["local"] for rank in ranks] == [0, 1, 0, 1]
    assert [rank["node"] for rank in ranks] == [0, 0, 1, 1]
    assert {rank["size"] for rank in ranks} == {4}


@pytest.mark.parametrize("name", _launchers())
def test_the_status_is_that_of_the_rank_that_failed(lab: Lab, shared_directory: Path, name: str) -> None:
    size = ("--launcher", name, "-N", "2", "--ntasks-per-node", "2", "--grace", "2")
    command = '[ "$RANK" != 2 ] || exit 7; exec sleep 300'
    result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", command, timeout_s=120)

    assert result.status == 7, result.stderr
