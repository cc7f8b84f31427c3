"""Guards that every wire-up method joins over several hosts of a real Slurm cluster, and that refusals hold there."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from muster.runner import ProgramResult
from plugins.labs import MUSTER, Lab

from .ranks import together
from .test_examples import run_program

pytestmark = [pytest.mark.lab, pytest.mark.torch]

EXAMPLES = Path(__file__).parents[2] / "examples"

# Two ranks on each of two hosts: what every rank must find, and one collective over all of them.
PROGRAM = """
import sys
import muster
import torch
import torch.distributed as dist

for method in sys.argv[1:]:
    with muster.world(method, timeout=90) as world:
        ranks = torch.tensor([float(world.rank)])
        dist.all_reduce(ranks)
        on_node = torch.ones(1)
        dist.all_reduce(on_node, group=world.node_group)
        assert (ranks.item(), on_node.item()) == (6.0, 2.0), (ranks, on_node)
        seats = world.gather((world.joined.seat.host, world.node_rank, world.local_rank, world.local_size))
        world.print(world.method, world.joined.identity.family, world.nodes, *world.hosts, world.backend, seats)
"""
SEATS = [("node1", 0, 0, 2), ("node1", 0, 1, 2), ("node2", 1, 0, 2), ("node2", 1, 1, 2)]
SRUN = ["srun", "-N2", "--ntasks-per-node=2"]
RUN = [MUSTER, "run", "--quiet", "--no-label", "-N", "2", "--ntasks-per-node", "2"]
MPIRUN = ["salloc", "-N2", "--ntasks-per-node=2", "mpirun", "--allow-run-as-root"]

# The words that start it; each method that it joins by, one after the other, and where that one's identity comes from.
# Four starts of torch cost more than ten meetings.
METHODS: dict[str, tuple[list[str], dict[str, str]]] = {
    "srun": (SRUN, {"auto": "slurm", "gloo": "slurm"}),
    "pmi2": ([*SRUN, "--mpi=pmi2"], {"auto": "pmi"}),
    "pmix": ([*SRUN, "--mpi=pmix"], {"auto": "pmix"}),
    "mpirun": (MPIRUN, {"auto": "openmpi"}),
    "muster run": ([*RUN, "--"], {"env": "env"}),
}


@pytest.fixture
def program(shared_directory: Path) -> Path:
    file = shared_directory / "program.py"
    file.write_text(PROGRAM)
    return file


def start(lab: Lab, words: list[str], program: Path, *methods: str) -> ProgramResult:
    if "mpirun" in words and not lab.exec(["sh", "-c", "command -v mpirun"]).ok:
        pytest.skip("this machine has no Open MPI")
    offered = lab.exec(["srun", "--mpi=list"])
    for word in words:
        plugin = word.partition("--mpi=")[2]
        if plugin and plugin not in (offered.stdout + offered.stderr).split():
            pytest.skip(f"by design: this Slurm has no {plugin} plugin")
    environment = {"OMP_NUM_THREADS": "1", "MUSTER_RUN_DIR": str(program.parent)}
    return lab.exec(
        [*words, sys.executable, str(program), *methods], env=environment, cwd=program.parent, timeout_s=180
    )


@pytest.mark.parametrize("way", METHODS)
def test_every_method_joins_over_several_hosts(lab: Lab, program: Path, way: str) -> None:
    words, families = METHODS[way]
    done = start(lab, words, program, *families)
    assert done.status == 0, done.stderr
    for method, family in families.items():
        assert f"{method} {family} 2 node1 node2 gloo {SEATS}" in done.stdout


def test_dummy_is_a_world_of_one_where_no_launcher_stands(lab: Lab, shared_directory: Path) -> None:
    """In a job of four tasks, whose command no srun has started: every other method refuses that."""
    file = shared_directory / "alone.py"
    file.write_text(
        "import muster\nwith muster.world('dummy') as world: print(world.size, world.mean(3), world.alone)\n"
    )
    done = start(lab, ["salloc", "--quiet", "-N2", "--ntasks-per-node=2"], file, "dummy")
    assert (done.status, done.stdout) == (0, "1 3.0 True\n"), done.stderr


def test_the_wire_up_that_was_asked_for_is_taken_and_told(lab: Lab, shared_directory: Path) -> None:
    """--wireup chooses where the script does not; a method in the script goes before it."""
    file = shared_directory / "tell.py"
    file.write_text("import muster, sys\nwith muster.world(*sys.argv[1:]) as world: world.describe()\n")
    asked = [*RUN[:-1], "1", "--wireup", "gloo", "--"]
    for words, told in (
        ([], "method gloo, chosen by MUSTER_WIREUP, identity from muster: rank from RANK"),
        (["env"], "method env, chosen by muster.world(method=…), identity from env: rank from RANK"),
    ):
        done = lab.exec([*asked, sys.executable, str(file), *words], cwd=shared_directory, timeout_s=180)
        assert done.status == 0, done.stderr
        assert told in done.stdout


def test_a_method_whose_variables_are_missing_says_how_to_start(lab: Lab, program: Path) -> None:
    done = start(lab, ["srun", "-N1"], program, "env")
    assert done.status != 0
    assert "hint: set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each rank" in done.stderr


def test_a_batch_script_without_srun_is_refused(lab: Lab, program: Path) -> None:
    done = start(lab, ["salloc", "-N2", "--ntasks-per-node=2"], program, "auto")
    assert done.status != 0
    assert "no srun started it" in done.stderr


def test_gpus_that_torch_does_not_see_stop_the_start(lab: Lab, program: Path) -> None:
    done = start(lab, ["srun", "-N2", "--gpus-per-node=2"], program, "auto")
    assert done.status != 0
    assert "GPUs were asked for (CUDA_VISIBLE_DEVICES=0,1)" in done.stderr
    assert "built for the CPU only" in done.stderr


def test_variables_left_by_an_outer_mpirun_are_named(lab: Lab, program: Path) -> None:
    """mpirun's environment of one rank, carried into a step of four."""
    inner = [*SRUN, "--overlap", sys.executable, str(program), "auto"]  # mpirun's own step holds the cores
    done = lab.exec(["salloc", "-N2", "-n4", "mpirun", "--allow-run-as-root", "-n", "1", *inner], timeout_s=180)
    assert done.status != 0
    assert "two launchers disagree: Open MPI says rank 0 of 1" in done.stderr
    assert "-u OMPI_COMM_WORLD_RANK" in done.stderr


def test_ranks_on_both_hosts_end_when_one_fails(lab: Lab, shared_directory: Path) -> None:
    """Without the launcher's help: srun is told to let the others live."""
    program = shared_directory / "fails.py"
    program.write_text(
        "import time, muster\n"
        "with muster.world(timeout=90) as world:\n"
        "    if world.rank == 3:\n"
        "        raise ValueError('the data are gone')\n"
        "    time.sleep(600)\n"
    )
    done = start(lab, [*SRUN, "--kill-on-bad-exit=0", "--wait=0"], program, "")
    assert done.status != 0
    assert "rank 0 leaves, because rank 3 on node2 failed: ValueError: the data are gone" in done.stderr


# Their scripts differ in the command alone, and test_examples.py runs each program: two of them in `make test`.
@pytest.mark.parametrize(
    "name",
    ["hello", "train_ddp", *(pytest.param(name, marks=pytest.mark.long) for name in ("pi", "train_single"))],
)
def test_an_example_and_its_batch_script_run_copied_out_with_sbatch_alone(
    lab: Lab, shared_directory: Path, tmp_path: Path, name: str
) -> None:
    for suffix in (".py", ".sh"):
        shutil.copy(EXAMPLES / f"{name}{suffix}", shared_directory)
    (shared_directory / ".venv").symlink_to(sys.prefix)

    ended = lab.batch(f"{name}.sh", cwd=shared_directory, timeout_s=300)

    logs = "\n".join(path.read_text() for path in shared_directory.glob("slurm-*.out"))
    assert ended.ok, logs
    told = {"hello": "(ranks: 4, hosts: 2)", "pi": "pi is about 3.14159265"}
    assert told.get(name, "right on the test images") in logs
    if name.startswith("train"):

        def train_alone() -> None:
            os.chdir(tmp_path)
            run_program(EXAMPLES / f"{name}.py")()

        (alone,) = together(1, train_alone, environment=lambda rank, size: {})
        assert losses(logs) == pytest.approx(losses(alone.out), abs=2e-3)


def losses(said: str) -> list[float]:
    found = [float(number) for number in re.findall(r"loss ([0-9.]+)", said)]
    assert found
    return found
