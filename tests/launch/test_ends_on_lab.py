"""A rank that is lost with its host, while the others end well: the run has not ended well."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import Lab

from .lab_runs import muster_run

pytestmark = pytest.mark.lab

# The ranks do not talk to each other. Three end well when the host of the last one is dead.
APART = 'hostname >began.$RANK; [ "$RANK" != 2 ] || exec sleep 300; until [ -e dead ]; do sleep 0.2; done'


def _begun(folder: Path) -> str:
    for _ in range(600):
        if (folder / "began.2").exists() and (folder / "began.2").read_text().strip():
            return (folder / "began.2").read_text().strip()
        time.sleep(0.1)
    raise AssertionError("rank 2 never began")


@pytest.mark.parametrize(
    "words", [(), ("--restart", "1"), ("--launcher", "mpirun")], ids=["plain", "with a restart", "mpirun"]
)
def test_a_rank_that_is_lost_with_its_host_is_no_success(
    lab: Lab, shared_directory: Path, words: tuple[str, ...]
) -> None:
    """srun said 0, and the run did too."""
    size = ("-N", "4", "--ntasks-per-node", "1")
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(muster_run, lab, shared_directory, *size, *words, "--", "sh", "-c", APART, timeout_s=600)
        host = _begun(shared_directory)
        try:
            checked(lab.muster("fault", "kill-node", host))
            (shared_directory / "dead").touch()
            result = ends.result()
        finally:
            lab.muster("fault", "restore", host, timeout_s=600)

    assert result.status != 0, result.stderr
    if "mpirun" not in words:
        assert f"how rank 2 on {host} ended is not known; Slurm calls {host} " in result.stderr
    assert host in result.stderr
    assert not (shared_directory / "muster-runs").exists()


def test_ranks_of_any_program_and_order_end_well(lab: Lab, shared_directory: Path) -> None:
    for words in (("-m", "cyclic"), ("--launcher", "mpirun")):
        size = ("-N", "2", "--ntasks-per-node", "2", *words)
        result = muster_run(lab, shared_directory, *size, "--", "true")

        assert (result.status, "not known" in result.stderr) == (0, False), result.stderr
    assert not (shared_directory / "muster-runs").exists()


LEAVES = "( setsid sleep 6543 & ); sleep 0.5; exit %d"


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
@pytest.mark.parametrize("status", [0, 3])
def test_a_daemon_that_holds_the_output_holds_up_no_run(
    lab: Lab, shared_directory: Path, launcher: str, status: int
) -> None:
    """srun waited for ever, and where no cgroup holds the daemon, it outlived the job."""
    size = ("-N", "2", "--ntasks-per-node", "1", "--launcher", launcher)
    result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", LEAVES % status, timeout_s=600)

    assert result.status == status, result.stderr
    assert "processes that had left their rank were ended on node" in result.stderr
    assert lab.exec(["pgrep", "-fx", "sleep 6543"]).stdout == ""
