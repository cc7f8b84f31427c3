"""Steps of every shape on real hosts, and Slurm's traps: place, CPUs, devices and port of each rank are right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from muster.render.parts import compose
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

from .lab_runs import AGENTS_OF_MPIRUN, Rank, Witness, muster_run, path_with
from .shells import SLURM_RANK

pytestmark = pytest.mark.lab

RUN = (MUSTER, "run", "--quiet")


@pytest.fixture
def witness(shared_directory: Path) -> Witness:
    return Witness.at(shared_directory)


def prologue(lab: Lab, witness: Witness, *srun: str) -> dict[int, Rank]:
    """What the ranks see when srun starts the prologue itself, with flags that no plan would write."""
    checked(lab.exec(["srun", *srun, "sh", "-c", compose(SLURM_RANK), "muster", *witness.command()]))
    return witness.ranks()


def assert_places(ranks: Mapping[int, Rank]) -> None:
    """Local ranks count up on each host, local sizes are what the host has, the address is rank 0's host."""
    hosts: dict[str, list[int]] = {}
    for number, rank in ranks.items():
        hosts.setdefault(rank.host, []).append(number)
    for here in hosts.values():
        assert [ranks[number].ints("LOCAL_RANK", "LOCAL_WORLD_SIZE") for number in sorted(here)] == [
            (index, len(here)) for index in range(len(here))
        ]
        assert len({ranks[number].environment["GROUP_RANK"] for number in here}) == 1
    assert {rank.environment["MASTER_ADDR"] for rank in ranks.values()} == {ranks[0].host}
    assert {rank.ints("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks.values()} == {(len(ranks), len(hosts))}


@pytest.mark.parametrize(
    "srun",
    [
        "-N2 -n5",
        "-N2 -n5 --distribution=block",
        "-N2 -n7 --distribution=cyclic",
        "-N3 -n7 --distribution=plane=2",
        "-N4 -n4",
    ],
)
def test_a_step_of_any_shape_gives_each_rank_its_place(lab: Lab, witness: Witness, srun: str) -> None:
    nodes, tasks, *_ = srun.split()
    ranks = prologue(lab, witness, *srun.split())

    assert_places(ranks)
    assert (f"-N{len({rank.host for rank in ranks.values()})}", f"-n{len(ranks)}") == (nodes, tasks)


def test_a_step_smaller_than_its_job_starts_on_its_own_hosts(lab: Lab, witness: Witness) -> None:
    step = [*RUN, "-N", "2", "--ntasks-per-node", "1", "--srun=--exclude=node1", "--", *witness.command()]
    checked(lab.exec(["salloc", "--quiet", "-N4", "--ntasks-per-node=3", *step]))

    assert_places(witness.ranks())
    assert {rank.host for rank in witness.ranks().values()}.isdisjoint({"node1"})
    assert len(witness.ranks()) == 2


@pytest.mark.parametrize("how", ["cyclic", "plane=2"])
def test_ranks_dealt_in_another_order_still_know_their_place(lab: Lab, witness: Witness, how: str) -> None:
    size = ("-N", "2", "--ntasks-per-node", "3")
    checked(muster_run(lab, witness.folder, *size, "--distribution", how, "--", *witness.command()))

    assert_places(witness.ranks())
    hosts = [rank.host for _, rank in sorted(witness.ranks().items())]
    assert hosts[:3] == (["node1", "node2", "node1"] if how == "cyclic" else ["node1", "node1", "node2"])


def test_inside_salloc_a_run_takes_the_size_of_the_allocation(lab: Lab, witness: Witness) -> None:
    checked(lab.exec(["salloc", "--quiet", "-N2", "--ntasks-per-node=3", *RUN, "--", *witness.command()]))

    assert_places(witness.ranks())
    assert len(witness.ranks()) == 6


def batch(
    lab: Lab, folder: Path, flags: Sequence[str], lines: str, env: Mapping[str, str] | None = None
) -> ProgramResult:
    """A batch script of a person's own, run to its end; its output is the result's stdout."""
    (folder / "own.sh").write_text(f"#!/bin/bash\n{lines}\n")
    environment = {"PATH": path_with(), **(env or {})}
    result = lab.exec(["sbatch", "--wait", "--output=own-%a.txt", *flags, "own.sh"], cwd=folder, env=environment)
    said = "".join(path.read_text() for path in sorted(folder.glob("own-*.txt")))
    return ProgramResult(result.argv, result.status, said, result.stderr)


def test_inside_sbatch_a_run_has_the_cpus_that_the_job_asked_for(lab: Lab, witness: Witness) -> None:
    line = shlex.join([*RUN, "--", *witness.command()])
    result = batch(lab, witness.folder, ["-N2", "--ntasks-per-node=2", "-c4"], line)

    assert result.status == 0, result.stdout
    assert_places(witness.ranks())
    assert {rank.environment["SLURM_CPUS_PER_TASK"] for rank in witness.ranks().values()} == {"4"}
    assert {rank.environment["MUSTER_CPUS"] for rank in witness.ranks().values()} == {"4"}


def test_srun_takes_the_cpus_of_a_task_from_the_job_but_in_22_05_and_23_02(lab: Lab, shared_directory: Path) -> None:
    """What `muster lint` says under srun-cpus-per-task: four tasks fit into four CPUs only where each takes one."""
    said = batch(
        lab, shared_directory, ["-N1", "-n2", "-c2"], "srun --version; srun --immediate=5 -n4 echo began"
    ).stdout
    is_old = re.search(r" (22\.05|23\.02)\.", said) is not None

    assert said.count("began") == (4 if is_old else 0), said
    assert is_old or "More processors requested than permitted" in said


def test_slurm_makes_the_folder_of_an_output_since_23_02(lab: Lab, shared_directory: Path) -> None:
    """What `muster lint` says under output-folder, and `muster submit` where Slurm fills in a part of the name."""
    said = batch(lab, shared_directory, ["-N1", "--output=own-new/%j/out.txt"], "date").status
    found = re.search(r" (\d+)\.(\d+)", lab.exec(["sbatch", "--version"]).stdout)
    assert found is not None

    is_old = (int(found[1]), int(found[2])) < (23, 2)
    assert (said == 0) != is_old
    assert bool([*shared_directory.glob("own-new/*/out.txt")]) != is_old


def test_a_step_may_divide_the_cpus_of_its_job_differently(lab: Lab, witness: Witness) -> None:
    """24.11 ends a step whose --cpus-per-task differs from an inherited SLURM_CPUS_PER_TASK."""
    step = [*RUN, "-N", "2", "--ntasks-per-node", "4", "-c", "2", "--", *witness.command()]
    allocation = ["salloc", "--quiet", "-N2", "--ntasks-per-node=2", "-c4"]
    checked(lab.exec([*allocation, "env", "SLURM_CPUS_PER_TASK=3", "SRUN_CPUS_PER_TASK=8", *step]))

    assert len(witness.ranks()) == 8
    assert {rank.environment["SLURM_CPUS_PER_TASK"] for rank in witness.ranks().values()} == {"2"}


CLASHING = {
    "SLURM_NTASKS": "7",
    "SLURM_NPROCS": "7",
    "SLURM_NTASKS_PER_NODE": "5",
    "SLURM_DISTRIBUTION": "cyclic",
    "SLURM_LABELIO": "0",
    "SLURM_KILL_BAD_EXIT": "0",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_CPU_BIND": "none",
    "SLURM_GPUS_PER_TASK": "1",
    "SLURM_MPI_TYPE": "no-such",
    "SRUN_CPUS_PER_TASK": "8",
    "SALLOC_PARTITION": "no-such",
    "SBATCH_PARTITION": "no-such",
    "SLURM_PARTITION": "no-such",
    "SLURM_GPUS": "9",
    "SLURM_GPUS_PER_NODE": "9",
    "SLURM_NTASKS_PER_GPU": "3",
    "SLURM_GRES": "gpu:9",
    "SLURM_CONSTRAINT": "no-such",
    "SLURM_HOSTFILE": "/no/such",
    "SLURM_WORKING_DIR": "/",
    "SLURM_REMOTE_CWD": "/",
    "SLURM_STDINMODE": "none",
    "SLURM_STDOUTMODE": "lost.txt",
    "SLURM_STDERRMODE": "lost.txt",
}


@pytest.mark.parametrize("allocation", [[], ["salloc", "--quiet", "-N2", "-n4"]], ids=["login", "salloc"])
def test_what_the_shell_says_to_slurm_does_not_change_a_run(lab: Lab, witness: Witness, allocation: list[str]) -> None:
    words = [*RUN, "-N", "2", "-g", "0", "--ntasks-per-node", "2", "--", *witness.command()]
    clashing = [f"{name}={value}" for name, value in CLASHING.items()]
    result = lab.exec([*allocation, "env", *clashing, *words])

    assert result.status == 0, result.stderr
    assert_places(witness.ranks())
    assert len(witness.ranks()) == 4
    assert "0: out of 0" in result.stdout


def test_a_run_inside_a_step_of_the_same_job_starts_beside_it(lab: Lab, witness: Witness) -> None:
    step = [*RUN, "-N", "2", "--ntasks-per-node", "2", "--", *witness.command()]
    result = lab.exec(["salloc", "--quiet", "-N2", "--ntasks-per-node=2", "srun", "-N1", "-n1", *step])

    assert result.status == 0, result.stderr
    assert_places(witness.ranks())


def test_a_run_that_each_task_of_a_step_would_start_is_refused(lab: Lab, witness: Witness) -> None:
    result = lab.exec(["srun", "-N2", "-n4", *RUN, "--", *witness.command()])

    assert result.status == 2, result.stderr
    assert "of the 4 that srun has started" in result.stderr
    assert "hint: type muster run without srun" in result.stderr
    assert witness.ranks() == {}


@pytest.mark.parametrize(
    ("allocation", "expected"),
    [
        (("-N1", "-n3"), {"node1": 3}),
        (("-N2", "--ntasks-per-node=2", "--gres=gpu:2"), {"node1": 2, "node2": 2}),
        (("-N2", "-c4", "--gres=gpu:2"), {"node1": 2, "node2": 2}),
        (("-N2", "-c4", "--gpus-per-node=2"), {"node1": 2, "node2": 2}),
        (("-N1", "-c4", "--gpus=2"), {"node1": 2}),
    ],
)
def test_inside_salloc_a_run_has_the_ranks_that_were_asked_for(
    lab: Lab, witness: Witness, allocation: tuple[str, ...], expected: dict[str, int]
) -> None:
    """In whatever words: --gres leaves no variable in salloc's shell."""
    checked(lab.exec(["salloc", "--quiet", *allocation, *RUN, "--", *witness.command()]))

    assert_places(witness.ranks())
    hosts = [rank.host for rank in witness.ranks().values()]
    assert {host: hosts.count(host) for host in hosts} == expected


def test_uneven_tasks_of_an_allocation_are_refused_and_no_guess(lab: Lab, witness: Witness) -> None:
    result = lab.exec(["salloc", "--quiet", "-N2", "-n5", *RUN, "--", *witness.command()])

    assert result.status == 2, result.stderr
    assert "this allocation has 5 tasks, and not the same number on each node" in result.stderr
    assert "hint: --ntasks-per-node" in result.stderr


def test_each_task_of_an_array_is_a_world_of_its_own(lab: Lab, shared_directory: Path) -> None:
    show = 'echo "$SLURM_ARRAY_TASK_ID $RANK $WORLD_SIZE $TORCHELASTIC_RUN_ID"'
    line = shlex.join([*RUN, "--ntasks-per-node", "2", "--no-label", "--", "sh", "-c", show])
    result = batch(lab, shared_directory, ["--array=0-1", "-N1", "--ntasks-per-node=2"], line)

    seen = [line.split() for line in result.stdout.splitlines()]
    assert sorted((row[0], row[1], row[2]) for row in seen) == [
        ("0", "0", "2"),
        ("0", "1", "2"),
        ("1", "0", "2"),
        ("1", "1", "2"),
    ]
    assert len({row[3] for row in seen}) == 2


def test_per_task_variables_expand_in_the_task_and_not_before(lab: Lab, shared_directory: Path) -> None:
    show = 'echo "$SLURM_PROCID $RANK $(hostname)"'
    result = muster_run(
        lab, shared_directory, "-N", "2", "--ntasks-per-node", "1", "--no-label", "--", "sh", "-c", show
    )

    assert sorted(result.stdout.splitlines()) == ["0 0 node1", "1 1 node2"]


def test_every_rank_sees_all_gpus_of_its_node(lab: Lab, witness: Witness) -> None:
    checked(muster_run(lab, witness.folder, "-N", "2", "-g", "4", "--", *witness.command()))

    assert len(witness.ranks()) == 8
    assert {rank.environment["CUDA_VISIBLE_DEVICES"] for rank in witness.ranks().values()} == {"0,1,2,3"}


@pytest.mark.parametrize("flag", ["--srun=--gpus-per-task=1", "--srun=--gpu-bind=single:1"])
def test_a_device_for_each_task_is_found_before_the_command_starts(lab: Lab, witness: Witness, flag: str) -> None:
    result = muster_run(lab, witness.folder, "-N", "1", "-g", "4", flag, "--", *witness.command())

    assert result.status == 2, result.stderr
    assert "hint: ask for GPUs per node, not per task" in result.stderr or "gpus-per-task" in result.stderr
    assert witness.ranks() == {}


def test_one_visible_device_is_given_on_request(lab: Lab, witness: Witness) -> None:
    checked(muster_run(lab, witness.folder, "-N", "1", "-g", "4", "--visibility", "one", "--", *witness.command()))

    seen = [witness.ranks()[number].environment["CUDA_VISIBLE_DEVICES"] for number in range(4)]
    assert seen == ["0", "1", "2", "3"]


def test_steps_at_the_same_time_in_one_allocation_have_different_ports(lab: Lab, shared_directory: Path) -> None:
    one = shlex.join([*RUN, "-N", "2", "--ntasks-per-node", "1", "-c", "1", "--no-label", "--", "sh", "-c"])
    # Each waits for the other, so that both hold their ports at once.
    script = (
        f"cd {shlex.quote(str(shared_directory))}\n"
        f"for i in 0 1 2; do {one} 'echo $MASTER_PORT; : >$RANK.'$i';"
        " until [ $(ls | wc -l) -ge 6 ]; do sleep 0.1; done' & done; wait"
    )
    result = lab.exec(["salloc", "--quiet", "-N2", "--ntasks-per-node=4", "bash", "-c", script])

    ports = result.stdout.split()
    assert len(ports) == 6, result.stderr
    assert len(set(ports)) == 3


def test_a_port_that_somebody_holds_is_refused_with_a_hint(lab: Lab, witness: Witness) -> None:
    squat = (
        "import socket, subprocess, sys\n"
        "taken = socket.socket()\ntaken.bind(('', 0))\ntaken.listen()\n"
        "sys.exit(subprocess.call([*sys.argv[1:3], '--master-port', str(taken.getsockname()[1]), *sys.argv[3:]]))\n"
    )
    words = [*RUN[:2], "-N", "1", "--ntasks-per-node", "2", "--", *witness.command()]
    result = lab.exec(["salloc", "--quiet", "-N1", "-n4", "srun", "-n1", "python3", "-c", squat, *words])

    assert result.status == 2, result.stderr
    assert re.search(r"port [0-9]+ of node1 is taken by another program", result.stderr)
    assert "--master-port" in result.stderr
    assert 0 not in witness.ranks()


LAUNCHERS = [
    "srun",
    "mpirun",
    pytest.param("torchrun", marks=pytest.mark.torch),
    AGENTS_OF_MPIRUN,
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_node_prologue_runs_once_on_every_node_before_its_ranks(lab: Lab, witness: Witness, launcher: str) -> None:
    marks = witness.folder / "marks"
    marks.mkdir()
    warm = f"sh -c 'sleep 0.3; cat {witness.folder}/seen/*.host | grep -c $(hostname) >>{marks}/$(hostname); :'"
    words = ("--launcher", launcher, "-N", "2", "--ntasks-per-node", "3", "--node-prologue", warm)
    checked(muster_run(lab, witness.folder, *words, "--", *witness.command()))

    assert {path.name: path.read_text() for path in marks.iterdir()} == {"node1": "0\n", "node2": "0\n"}
    assert_places(witness.ranks())


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_node_prologue_that_fails_names_its_node(lab: Lab, witness: Witness, launcher: str) -> None:
    size = ("--launcher", launcher, "-N", "2", "--ntasks-per-node", "2")
    words = (*size, "--node-prologue", "sh -c '[ $(hostname) != node2 ]'")
    result = muster_run(lab, witness.folder, *words, "--", *witness.command())

    assert result.status == 2, result.stderr
    assert "the node prologue failed on node2 with status 1" in result.stderr
    assert "node2" not in witness.hosts()


def test_the_node_prologue_is_waited_for_at_a_second_start_too(lab: Lab, shared_directory: Path) -> None:
    """mpirun's ranks do not know Slurm's step, and the port may be the same: the first start's mark is none."""
    run = (*RUN, "--launcher", "mpirun", "--master-port", "23456", "--node-prologue")
    one = f"{shlex.join(run)} \"sh -c 'sleep 0.5; : >$i.\\$(hostname)'\" -- sh -c 'cat $0.$(hostname)' $i"
    script = f"cd {shlex.quote(str(shared_directory))}; for i in 1 2; do {one} || exit; done"
    result = lab.exec(["salloc", "--quiet", "-N2", "--ntasks-per-node=2", "bash", "-c", script])

    assert result.status == 0, result.stderr
    assert sorted(path.name for path in shared_directory.iterdir()) == ["1.node1", "1.node2", "2.node1", "2.node2"]


# Like ssh: options, a host, a command line; nothing of our environment arrives at the other end.
_LIKE_SSH = """\
#!/bin/sh
while :; do case $1 in -p | -l) shift 2 ;; -*) shift ;; *) break ;; esac; done
host=$1
shift
set -- srun --overlap --export=NONE --mpi=none -N1 -n1 -w "$host" -D / /bin/sh -c "export PATH=/usr/bin:/bin; $*"
exec "$@" </dev/null
"""


def test_mpirun_over_ssh_carries_the_wire_up_and_what_was_asked_for(lab: Lab, witness: Witness) -> None:
    agent = witness.folder / "like-ssh"
    agent.write_text(_LIKE_SSH)
    agent.chmod(0o755)
    by_ssh = ["env", "OMPI_MCA_plm=rsh", f"OMPI_MCA_plm_rsh_agent={agent}", "FROM_SHELL=1"]
    words = ("--launcher", "mpirun", "--env", "MINE=a b\nc", "--env", "FROM_SHELL")
    step = [*by_ssh, *RUN, *words, "--", *witness.command("new\nline", "$HOME", "it's", "*")]
    result = lab.exec(["salloc", "--quiet", "-N2", "--ntasks-per-node=2", *step], cwd=witness.folder)

    assert result.status == 0, result.stderr
    assert_places(witness.ranks())
    assert len(witness.ranks()) == 4
    for rank in witness.ranks().values():
        assert rank.arguments == ("new\nline", "$HOME", "it's", "*")
        assert (rank.environment["MINE"], rank.environment["FROM_SHELL"]) == ("a b\nc", "1")
        assert "RES_OPTIONS" in rank.environment


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_working_directory_that_a_node_does_not_see_is_named(lab: Lab, witness: Witness, launcher: str) -> None:
    """Slurm would start the ranks in /tmp instead. Each host of a lab has a /tmp of its own."""
    hidden = "/tmp/only-on-the-login-host"
    words = shlex.join([*RUN, "--launcher", launcher, "-N", "2", "--ntasks-per-node", "1", "--", *witness.command()])
    result = lab.exec(["sh", "-c", f"mkdir -p {hidden} && cd {hidden} && {words}"], env={"PATH": path_with()})

    assert result.status == 2, result.stderr
    assert re.search(rf"the node node[12] does not see the working directory {hidden}", result.stderr)
    assert "hint: use a file system that the compute nodes see" in result.stderr
    assert witness.ranks() == {}


def test_an_address_that_was_asked_for_wins_and_one_that_was_found_does_not(lab: Lab, witness: Witness) -> None:
    words = ("-N", "2", "--ntasks-per-node", "1", "--master-addr", "node2", "--master-port", "23456")
    checked(muster_run(lab, witness.folder, *words, "--", *witness.command(), env={"MASTER_ADDR": "elsewhere"}))

    seen = {(rank.environment["MASTER_ADDR"], rank.environment["MASTER_PORT"]) for rank in witness.ranks().values()}
    assert seen == {("node2", "23456")}


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_path_of_the_command_is_its_own_and_the_launcher_is_found(lab: Lab, witness: Witness, launcher: str) -> None:
    program = witness.folder / "lr=1"
    program.write_text('#!/bin/sh\necho "path is $PATH"\n')
    program.chmod(0o755)
    words = ("--env", "PATH=/only/this", "--launcher", launcher, "--chdir", str(witness.folder), "--", "./lr=1")
    done = muster_run(lab, witness.folder, *words)

    assert done.ok, done.stderr
    assert "path is /only/this\n" in done.stdout
