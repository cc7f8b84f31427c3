"""Guards what a person does in a lab: steps, batch jobs, allocations, MPI and GPUs behave as on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import Lab

pytestmark = pytest.mark.lab


def test_srun_runs_on_every_host(either_lab: Lab) -> None:
    said = checked(either_lab.exec(["srun", "-N4", "hostname"])).stdout
    assert sorted(said.split()) == ["node1", "node2", "node3", "node4"]


def test_sbatch_writes_its_output_where_it_was_submitted(either_lab: Lab, shared_directory: Path) -> None:
    script = shared_directory / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N2 --output=out.txt\nsrun hostname\n")
    checked(either_lab.exec(["sbatch", "--wait", str(script)], cwd=shared_directory))
    assert sorted((shared_directory / "out.txt").read_text().split()) == ["node1", "node2"]


def test_a_batch_job_runs_on_the_first_host_of_its_list(either_lab: Lab, shared_directory: Path) -> None:
    wrap = 'echo "$(hostname) $SLURM_JOB_NODELIST"'
    checked(
        either_lab.exec(
            ["sbatch", "--wait", "-wnode[2-3]", "-N2", "--output=out.txt", f"--wrap={wrap}"], cwd=shared_directory
        )
    )
    assert (shared_directory / "out.txt").read_text() == "node2 node[2-3]\n"


def test_salloc_gives_an_allocation_to_steps(either_lab: Lab) -> None:
    said = checked(either_lab.exec(["salloc", "-N3", "srun", "hostname"])).stdout
    assert sorted(said.split()) == ["node1", "node2", "node3"]


def test_scancel_ends_a_job(either_lab: Lab, shared_directory: Path) -> None:
    job = checked(either_lab.exec(["sbatch", "--parsable", "--wrap=sleep 1000"], cwd=shared_directory)).stdout.strip()
    checked(either_lab.exec(["scancel", job]))
    said = either_lab.exec(["scontrol", "show", "job", job]).stdout
    assert "JobState=CANCELLED" in said or "JobState=COMPLETING" in said  # the latter while its processes end


@pytest.mark.parametrize(
    ("mpi", "rank", "size"),
    [("pmi2", "PMI_RANK", "PMI_SIZE"), ("pmix", "PMIX_RANK", None)],
)
def test_mpi_plugins_tell_each_task_its_rank(lab: Lab, mpi: str, rank: str, size: str | None) -> None:
    offered = lab.exec(["srun", "--mpi=list"])
    if mpi not in (offered.stdout + offered.stderr).split():
        pytest.skip(f"by design: this Slurm has no {mpi} plugin")
    wanted = f"${rank} ${size}" if size else f"${rank} 8"
    said = checked(
        lab.exec(["srun", f"--mpi={mpi}", "-N4", "--ntasks-per-node=2", "sh", "-c", f'echo "{wanted}"'])
    ).stdout
    assert sorted(said.splitlines()) == [f"{number} 8" for number in range(8)]


# With --export=NONE, Slurm starts Open MPI's daemons without any environment unless the script says otherwise.
_MPI_JOB = """\
#!/bin/sh
#SBATCH -N4 --ntasks-per-node=2 --export=NONE -o out.txt
export SLURM_EXPORT_ENV=ALL
mpirun.openmpi sh -c 'echo "$OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $(hostname)"'
"""


def test_mpirun_starts_ranks_on_every_host_of_a_batch_job(either_lab: Lab, shared_directory: Path) -> None:
    script = shared_directory / "job.sh"
    script.write_text(_MPI_JOB)
    checked(either_lab.exec(["sbatch", "--wait", str(script)], cwd=shared_directory))
    said = [line.split() for line in (shared_directory / "out.txt").read_text().splitlines()]
    assert sorted(int(line[0]) for line in said) == list(range(8))
    assert {line[1] for line in said} == {"8"}
    assert {line[2] for line in said} == {"node1", "node2", "node3", "node4"}


@pytest.mark.parametrize(
    ("request_words", "devices"),
    [
        (["--gpus-per-node=4"], ["0,1,2,3"]),
        (["--gres=gpu:2"], ["0,1"]),
        (["-n2", "--gpus-per-task=1"], ["0", "1"]),
        (["-n1"], [""]),
    ],
)
def test_a_step_sees_the_gpus_that_it_asked_for(either_lab: Lab, request_words: list[str], devices: list[str]) -> None:
    show = 'echo "$CUDA_VISIBLE_DEVICES"'
    said = checked(either_lab.exec(["srun", "-N1", *request_words, "sh", "-c", show])).stdout
    assert sorted(said.splitlines()) == devices


def test_a_port_is_reserved_for_a_step_that_asks(lab: Lab) -> None:
    said = checked(lab.exec(["srun", "-N2", "--resv-ports=1", "sh", "-c", "echo $SLURM_STEP_RESV_PORTS"])).stdout
    ports = set(said.split())
    assert len(ports) == 1
    assert 20000 <= int(ports.pop()) <= 20999


def test_each_host_has_its_own_tmp_shared_memory_and_processes(lab: Lab) -> None:
    write = "touch /tmp/mine-$(hostname) /dev/shm/mine-$(hostname); sleep 1; echo $(ls /tmp /dev/shm | grep mine)"
    said = checked(lab.exec(["srun", "-N4", "-l", "sh", "-c", write])).stdout
    for line in said.splitlines():
        names = line.partition(":")[2].split()
        assert len(names) == 2
        assert len(set(names)) == 1
    checked(lab.exec(["srun", "-N4", "sh", "-c", "rm /tmp/mine-* /dev/shm/mine-*"]))
    assert checked(lab.exec(["ps", "-p", "1", "-o", "pid="], host="node3")).stdout.strip() == "1"


def test_each_host_sees_its_own_interfaces_only(either_lab: Lab) -> None:
    for host in (None, "node2"):
        said = checked(either_lab.exec(["sh", "-c", "ls /sys/class/net; cut -d: -sf1 /proc/net/dev"], host=host)).stdout
        seen = sorted(said.split())
        assert seen[::2] == seen[1::2]
        assert ("eth0" in seen) == (host is not None)


def test_a_job_without_the_callers_environment_has_the_users_own(either_lab: Lab, shared_directory: Path) -> None:
    words = ["sbatch", "--wait", "--export=NONE", "--output=out.txt", '--wrap=echo "$USER $LOGNAME"; command -v srun']
    checked(either_lab.exec(words, cwd=shared_directory))
    assert (shared_directory / "out.txt").read_text() == "root root\n/usr/bin/srun\n"


def test_su_knows_the_labs_users(either_lab: Lab) -> None:
    said = checked(either_lab.exec(["su", "-", "alice", "--command", "id -un; pwd"], host="node1")).stdout
    assert said == "alice\n/run/muster-lab/home/alice\n"
