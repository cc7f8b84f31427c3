"""Guards that a rank finds itself under every name that a program may read: torch's, Slurm's, MPI's, JAX's."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from muster.rank import agent_keeper
from muster.runner import checked, run
from plugins.labs import Lab

from .lab_runs import AGENTS_OF_MPIRUN, Witness, muster_run
from .shells import MPI_RANK, SLURM_RANK, TORCHRUN_RANK, each_shell, fake_topology, start, step, told

# What torchrun's agent on the second of two hosts tells its second rank; the agent itself is task 1 of 2.
OF_AN_AGENT = {
    **step(rank=1, size=2, local_rank=0, node=1, per_node="1(x2)"),
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "20500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "MUSTER_PIPES": "/nowhere",
    "MUSTER_LAUNCHER": "torchrun",
    "SLURM_GTIDS": "1",
    "SLURM_CPUS_PER_TASK": "8",
    "MUSTER_CPUS": "4",
    "SLURM_NPROCS": "2",
}
# The same under mpirun, whose daemon was started by srun.
OF_AN_MPI_RANK = {
    **step(rank=1, size=2, local_rank=0, node=1, per_node="1(x2)", nodes="node2"),
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "3",
    "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.9:1",
    "MUSTER_NODES": "node1 node2",
    "MUSTER_LAUNCHER": "mpirun",
}
THE_FOURTH_OF_FOUR = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_NPROCS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NNODES": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_NTASKS_PER_NODE": "2",
}
DAEMONS = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_MCA_orte_hnp_uri": "1.0;tcp://x:1"}
DAEMONS |= {"PMIX_RANK": "1", "PMIX_NAMESPACE": "7.1", "PMI_RANK": "1", "PMI_FD": "9", "MPI_LOCALRANKID": "0"}


@each_shell
@pytest.mark.parametrize(
    ("parts", "environment"), [(TORCHRUN_RANK, OF_AN_AGENT), (MPI_RANK, OF_AN_MPI_RANK)], ids=["torchrun", "mpirun"]
)
def test_slurms_names_are_the_ranks_and_not_those_of_what_started_it(
    shell: tuple[str, ...], parts: tuple[str, ...], environment: dict[str, str]
) -> None:
    seen = told(start(parts, environment, shell=shell))

    assert {name: seen[name] for name in THE_FOURTH_OF_FOUR} == THE_FOURTH_OF_FOUR
    assert seen["RANK"] == "3"
    assert "SLURM_GTIDS" not in seen


@each_shell
def test_a_rank_of_an_agent_has_its_own_share_of_the_cpus(shell: tuple[str, ...]) -> None:
    assert told(start(TORCHRUN_RANK, OF_AN_AGENT, shell=shell))["SLURM_CPUS_PER_TASK"] == "4"


def under_its_keeper(
    folder: Path, ranks: int, environment: dict[str, str], program: str = "agent_keeper.py"
) -> dict[str, str]:
    """The environment of an agent of so many ranks, which its ranks inherit: a stand-in for torchrun prints it."""
    (folder / "agent.py").write_text("import os; print(*(f'{n}={v}' for n, v in os.environ.items()), sep='\\0')")
    told_words = ["1", str(ranks), "agent", *["--x"] * 6, ""]
    words = [sys.executable, str(Path(agent_keeper.__file__).with_name(program)), "plain", "true", *told_words]
    return told(run(words, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), **environment}))


@pytest.mark.parametrize("program", ["agent_keeper.py", "agent_plain.py"])
def test_a_rank_of_torchruns_is_no_rank_of_mpi(program: str, tmp_path: Path) -> None:
    own = {"OMPI_MCA_btl": "tcp,self", "A_VALUE": "of two\nexport PATH=/nowhere", "PMIX": "mine"}
    seen = under_its_keeper(tmp_path, 1, {**OF_AN_AGENT, **DAEMONS, **own}, program)

    assert not DAEMONS.keys() & seen.keys()
    assert {name: seen[name] for name in own} == own


@pytest.mark.parametrize("program", ["agent_keeper.py", "agent_plain.py"])
@pytest.mark.parametrize(("asked", "more"), [("0", {}), ("1", {}), ("999", {}), ("1", {"OMP_NUM_THREADS": "3"})])
def test_a_rank_of_torchruns_has_its_share_of_the_cores_of_its_agent(
    asked: str, more: dict[str, str], program: str, tmp_path: Path
) -> None:
    """lscpu counts the cores, for us: those of the CPUs on which this test may run."""
    said = checked(run(["lscpu", "--parse=cpu,core,socket,node"])).stdout.splitlines()
    rows = [row.split(",", 1) for row in said if not row.startswith("#")]
    cores = len({core for cpu, core in rows if int(cpu) in os.sched_getaffinity(0)})
    for ranks in (1, 2, 64):
        own = {} if more else {"OMP_NUM_THREADS": "1", "MUSTER_OMP": "own"}
        seen = under_its_keeper(tmp_path, ranks, {"MUSTER_CPUS": asked, **own, **more}, program)
        expected = max(1, min(cores // ranks, int(asked) or cores))
        assert seen["OMP_NUM_THREADS"] == more.get("OMP_NUM_THREADS", str(expected))


def test_each_cpu_is_a_core_where_the_kernel_hides_its_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_keeper, "open", lambda _: io.StringIO(), raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))

    assert agent_keeper._threads(4, 0) == 2


@each_shell
def test_a_rank_of_mpis_stays_one_and_finds_all_hosts(shell: tuple[str, ...]) -> None:
    seen = told(start(MPI_RANK, OF_AN_MPI_RANK, shell=shell))

    assert {name: seen[name] for name in OF_AN_MPI_RANK if name.startswith(("OMPI", "PMIX"))} == {
        name: value for name, value in OF_AN_MPI_RANK.items() if name.startswith(("OMPI", "PMIX"))
    }
    assert seen["SLURM_STEP_NODELIST"] == "node1,node2"


@each_shell
def test_outside_slurm_nothing_of_slurms_is_made_up(shell: tuple[str, ...]) -> None:
    alone = {name: value for name, value in OF_AN_AGENT.items() if not name.startswith("SLURM")}

    assert not [name for name in told(start(TORCHRUN_RANK, alone, shell=shell)) if name.startswith("SLURM")]


@each_shell
@pytest.mark.parametrize(
    ("parts", "environment", "expected"),
    [
        (SLURM_RANK, step(more={"MUSTER_PORT": "20500"}), "node1:20500"),
        (SLURM_RANK, step(more={"MUSTER_PORT": "20500", "MUSTER_ADDRESS": "fd00::7"}), "[fd00::7]:20500"),
        (SLURM_RANK, step(more={"JAX_COORDINATOR_ADDRESS": "mine:1"}), "mine:1"),
        (TORCHRUN_RANK, OF_AN_AGENT, "node1:20501"),
        (TORCHRUN_RANK, {**OF_AN_AGENT, "MUSTER_PORT_LOW": "20490", "MUSTER_PORT_COUNT": "11"}, "node1:20499"),
    ],
    ids=["its port", "IPv6", "the user's own", "beside the agent's store", "at the range's end"],
)
def test_jax_is_told_where_its_ranks_meet(
    shell: tuple[str, ...], parts: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    assert told(start(parts, environment, shell=shell))["JAX_COORDINATOR_ADDRESS"] == expected


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh")], ids=lambda words: words[0])
def test_threads_are_counted_where_a_list_cannot_be_read_byte_by_byte(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """A kernel's answer to a read of one byte of such a list is nothing: an empty file reads the same."""
    machine = fake_topology(tmp_path, {0: "", 1: "", 2: "", 3: ""}, "0-3")
    for cpu in range(4):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{cpu % 2}\n")
        (topology / "thread_siblings_list").write_text("")
    seen = told(start(SLURM_RANK, step(per_node="1", node_count=1, size=1, more=machine), shell=shell))

    assert seen["OMP_NUM_THREADS"] == "2"


@pytest.mark.lab
@pytest.mark.parametrize(
    "launcher",
    [
        "srun",
        pytest.param("torchrun", marks=pytest.mark.torch),
        "mpirun",
        AGENTS_OF_MPIRUN,
    ],
)
def test_on_two_hosts_every_family_names_the_same_rank(lab: Lab, shared_directory: Path, launcher: str) -> None:
    witness = Witness.at(shared_directory / launcher)

    result = muster_run(
        lab, shared_directory, "-N2", "--ntasks-per-node=2", "--launcher", launcher, "--", *witness.command()
    )

    assert result.ok, result.stderr
    for rank, seen in witness.ranks().items():
        assert seen.ints("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID") == (rank, rank % 2, rank // 2)
        assert seen.ints("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES") == (4, 4, 2)
        assert seen.environment["SLURM_STEP_TASKS_PER_NODE"] == "2(x2)"
        theirs = {name: value for name, value in seen.environment.items() if name.startswith(("OMPI_COMM_", "PMI"))}
        assert theirs.get("OMPI_COMM_WORLD_RANK", str(rank)) == theirs.get("PMIX_RANK", str(rank)) == str(rank)
        assert bool(theirs) == (launcher == "mpirun")
    assert len(witness.ranks()) == 4


@each_shell
def test_a_node_without_the_environments_python_is_named(shell: tuple[str, ...]) -> None:
    """Without it PATH would find another Python there, and nobody would know."""
    parts = ("stop", "meeting", "rank_slurm", "python_there", "go_rank")
    refused = start(parts, step(more={"MUSTER_PYTHON": "/tmp/venv/bin/python"}), shell=shell)

    assert refused.status == 2
    assert "does not see the Python of the environment, /tmp/venv/bin/python" in refused.stderr
    assert start(parts, step(more={"MUSTER_PYTHON": "/bin/sh"}), shell=shell).ok
