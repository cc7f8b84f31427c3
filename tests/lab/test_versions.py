"""Guards that a lab's Slurm is the one that was asked for, on its own libraries, while tasks have the machine's."""

from __future__ import annotations

import pytest

from muster.runner import checked
from muster_lab.build import system_version
from muster_lab.debian import LIBRARIES
from plugins.labs import Lab

pytestmark = pytest.mark.lab

# What each version offers, none and pmi2 aside: what is missing here is missing there, and a test may say so.
MPI_PLUGINS = {"24.11": {"pmix", "cray_shasta"}, "26.05": {"cray_shasta"}}


@pytest.fixture
def fetched_version(slurm_version: str) -> str:
    if slurm_version == "system":
        pytest.skip("by design: the machine's own Slurm uses the machine's own libraries")
    return slurm_version


def test_every_program_is_of_the_version_asked_for(lab: Lab, slurm_version: str) -> None:
    wanted = system_version() if slurm_version == "system" else slurm_version
    asked = "srun --version; sbatch --version; slurmctld -V; slurmd -V; scontrol --version"
    versions = {line.split()[-1] for line in checked(lab.exec(["sh", "-c", asked])).stdout.splitlines()}
    assert len(versions) == 1
    assert versions.pop().startswith(wanted)
    assert f"= {wanted}" in checked(lab.exec(["scontrol", "show", "config"])).stdout


def test_the_mpi_plugins_are_those_that_the_version_has(lab: Lab, slurm_version: str) -> None:
    said = lab.exec(["srun", "--mpi=list"])
    offered = {
        word for line in (said.stdout + said.stderr).splitlines() if len(line.split()) == 1 for word in line.split()
    }
    if slurm_version == "system":
        assert {"none", "pmi2"} <= offered
    else:
        assert offered == {"none", "pmi2"} | MPI_PLUGINS[slurm_version]


def test_pmix_where_there_is_none_is_refused_by_slurm_itself(lab: Lab, slurm_version: str) -> None:
    status = lab.exec(["srun", "--mpi=pmix", "true"]).status
    assert (status == 0) == (slurm_version == "system" or "pmix" in MPI_PLUGINS[slurm_version])


def test_tasks_run_on_the_machines_own_libraries(lab: Lab) -> None:
    maps = checked(lab.exec(["srun", "-N2", "cat", "/proc/self/maps"])).stdout
    assert "libc.so.6" in maps
    assert LIBRARIES not in maps
    assert "LD_" not in checked(lab.exec(["srun", "env"])).stdout


def test_slurm_itself_runs_on_the_libraries_that_came_with_it(lab: Lab, fetched_version: str) -> None:
    for process in ("slurmctld", "slurmd"):
        host = None if process == "slurmctld" else "node1"
        own_libc = f'grep -l "{LIBRARIES}/libc.so.6" $(grep -l "^{process}" /proc/[0-9]*/comm | sed s/comm/maps/)'
        assert checked(lab.exec(["sh", "-c", own_libc], host=host)).stdout


def test_a_users_library_path_reaches_the_tasks_and_not_slurm(lab: Lab) -> None:
    path = "/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu"
    said = checked(lab.exec(["srun", "-N2", "sh", "-c", "echo $LD_LIBRARY_PATH"], env={"LD_LIBRARY_PATH": path})).stdout
    assert said.split() == [path, path]


def test_users_have_names_in_it(lab: Lab) -> None:
    assert checked(lab.exec(["srun", "-N2", "id", "-un"], user="alice")).stdout.split() == ["alice", "alice"]
    names = checked(lab.exec(["srun", "sh", "-c", "squeue --noheader --format=%u --job=$SLURM_JOB_ID"], user="alice"))
    assert names.stdout.split() == ["alice"]


def test_accounting_is_of_that_version_and_works(accounting_lab: Lab) -> None:
    assert "alice" in checked(accounting_lab.exec(["sacctmgr", "--noheader", "show", "associations"])).stdout
    refused = accounting_lab.exec(["sbatch", "--account=nobody", "--wrap=true"], user="alice")
    assert not refused.ok
    assert "Invalid account" in refused.stderr
