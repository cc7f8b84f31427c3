"""`muster nodes` on a lab: a node that failed is excluded from the next job, until it is cleared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

_ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def _start(lab: Lab, folder: Path, *words: str) -> ProgramResult:
    environment = ("env", f"XDG_STATE_HOME={folder / 'state'}")
    return lab.exec((*environment, MUSTER, *words), cwd=folder, env={"PATH": path_with()})


def _muster(lab: Lab, folder: Path, *words: str) -> ProgramResult:
    return checked(_start(lab, folder, *words))


def _hosts(lab: Lab, folder: Path, *words: str) -> tuple[str, list[str]]:
    """What submit says, and the hosts of the job."""
    size = ("-N", "2", "--ntasks-per-node", "1")
    done = _muster(lab, folder, "submit", *size, *words, "--", "hostname")
    job = done.stdout.strip()
    lines = _muster(lab, folder, "logs", "-f", job).stdout.splitlines()
    return done.stderr, sorted(line.partition(": ")[2] for line in lines if ": node" in line)


def test_a_node_with_a_known_fault_is_excluded_until_it_is_cleared(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "rank.sh").write_text(f'[ "$RANK" = 0 ] && exec sleep 60\necho "{_ECC}" >&2; exit 1\n')
    words = ("--nodelist", "node[1-2]", "-N", "2", "--ntasks-per-node", "1", "--", "sh", "rank.sh")
    job = _muster(lab, shared_directory, "submit", *words).stdout.strip()
    _start(lab, shared_directory, "logs", "-f", job)

    told, hosts = _hosts(lab, shared_directory)
    assert f"excluded: node2: the GPU's memory is faulty, job {job} (muster nodes --clear forgets them)" in told
    assert "node2" not in hosts
    assert len(hosts) == 2
    (listed,) = json.loads(_muster(lab, shared_directory, "nodes", "--json").stdout)
    assert (listed["node"], listed["job"]) == ("node2", job)
    assert "node2" in _muster(lab, shared_directory, "nodes").stdout

    done = _muster(lab, shared_directory, "submit", "-N", "4", "--ntasks-per-node", "1", "--", "hostname")
    assert "taken, since the job has too few nodes without: node2: the GPU's memory is faulty" in done.stderr

    told, hosts = _hosts(lab, shared_directory, "--nodelist", "node[2-3]")
    assert ("excluded:" in told, hosts) == (False, ["node2", "node3"])

    assert "forgotten: node2" in _muster(lab, shared_directory, "nodes", "--clear").stderr
    told, hosts = _hosts(lab, shared_directory)
    assert ("excluded:" in told, hosts) == (False, ["node1", "node2"])


@pytest.mark.long
def test_a_node_that_died_is_excluded_until_slurm_has_it_back(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "3")
    size = ("-N", "2", "--ntasks-per-node", "1", "--nodelist", "node[1-2]")
    words = ("submit", "--restart", "1", *size, "--", "sleep", "300")
    job = _muster(lab, shared_directory, *words).stdout.strip()
    (run,) = (shared_directory / "muster-runs").iterdir()
    until = time.monotonic() + 60
    while not (run / "attempts").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    checked(lab.muster("fault", "kill-node", "node2"))
    _start(lab, shared_directory, "logs", "-f", job)
    told, hosts = _hosts(lab, shared_directory)
    assert f"excluded: node2: Slurm said that it died, job {job}" in told
    assert hosts == ["node1", "node3"]

    checked(lab.muster("fault", "restore"))
    told, hosts = _hosts(lab, shared_directory)
    assert "excluded:" not in told
