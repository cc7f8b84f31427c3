"""What every task runs before the user's command: right identity, right threads, and a wrong start refused."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launch.shells import MPI_RANK, SLURM_RANK, each_shell, fake_topology, start, step, told
from muster.follow.first_failure import failure_in
from muster.launchers import TYPED_NAMES as CHOICES
from muster.launchers import launcher_named
from muster.launchers.base import KEEPER
from muster.rank import contract
from muster.rank.hostlist import compress, first
from muster.render.own_text import prologue_text
from muster.render.parts import compose
from muster.runner import run


@each_shell
def test_a_task_of_a_step_publishes_the_whole_family(shell: tuple[str, ...]) -> None:
    seen = told(start(SLURM_RANK, step(rank=5, local_rank=1, node=1), shell=shell))

    assert {name: seen[name] for name in contract.PUBLISHED} == {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": "5",
        "ROLE_WORLD_SIZE": "8",
        "MASTER_ADDR": "node1",
        "MASTER_PORT": str(20000 + (4711 * 61 + 3) % 12000),
        "TORCHELASTIC_RUN_ID": "4711.3.0",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    assert "TORCHELASTIC_USE_AGENT_STORE" not in seen


@each_shell
@pytest.mark.parametrize(
    ("per_node", "node", "expected"),
    [("4(x2)", 1, "4"), ("3,1", 1, "1"), ("2(x3),7,1(x2)", 3, "7"), ("2(x3),7,1(x2)", 5, "1"), ("8", 0, "8")],
)
def test_uneven_tasks_per_node_give_each_node_its_own_local_size(
    shell: tuple[str, ...], per_node: str, node: int, expected: str
) -> None:
    seen = told(start(SLURM_RANK, step(per_node=per_node, node=node, rank=1), shell=shell))

    assert seen["LOCAL_WORLD_SIZE"] == expected


@each_shell
@settings(max_examples=25, deadline=None)
@given(names=st.lists(st.from_regex(r"[a-z]{1,6}[0-9]{0,4}(-[a-z]{2})?", fullmatch=True), min_size=1, max_size=9))
def test_the_first_host_is_the_one_that_the_full_parser_finds(shell: tuple[str, ...], names: list[str]) -> None:
    listed = compress(names)
    script = compose(["meeting"]) + '\nmuster_first_host "$1"; printf %s "$muster_first"'

    assert run([*shell, "-c", script, "x", listed]).stdout == first(listed) == names[0]


@each_shell
def test_arguments_arrive_byte_for_byte(shell: tuple[str, ...]) -> None:
    hostile = [
        "a  b",
        "$(touch canary)",
        "`id`",
        "'",
        '"',
        "\\",
        "new\nline",
        "*",
        "~",
        "",
        "ünï",
        "-n",
        "--",
        "!!",
        "$HOME",
    ]
    result = start(SLURM_RANK, step(), ["printf", "%s\\0", *hostile], shell=shell)

    assert result.stdout.split("\0")[:-1] == hostile


@each_shell
def test_the_exit_status_is_the_commands_and_nothing_stays_around_it(shell: tuple[str, ...]) -> None:
    assert start(SLURM_RANK, step(), ["sh", "-c", "exit 7"], shell=shell).status == 7
    assert start(SLURM_RANK, step(), ["sh", "-c", "kill -9 $$"], shell=shell).status == -9


@each_shell
@pytest.mark.parametrize(
    ("environment", "sentence", "hint"),
    [
        ({}, "not started by srun", "srun"),
        (step(more={"MUSTER_NTASKS": "16"}), "16 ranks were planned, but the launcher started 8", "launcher"),
        (step(size=1, per_node="1", node_count=1, more={"MUSTER_NTASKS": "8"}), "8 ranks were planned", "launcher"),
        (step(more={"MUSTER_ADDRESS": "localhost"}), "which means another host on every node", "--master-addr"),
        (step(more={"MUSTER_ADDRESS": "node1:29500"}), "holds a port", "--master-port"),
        (step(more={"MUSTER_GPUS": "4", "CUDA_VISIBLE_DEVICES": "2"}), "sees only the devices '2'", "--gpus-per-task"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_start_that_was_not_planned_is_refused(
    shell: tuple[str, ...], environment: dict[str, str], sentence: str, hint: str
) -> None:
    result = start(SLURM_RANK, environment, shell=shell)

    assert result.status == 2
    assert sentence in result.stderr
    assert "\n\nhint: " in result.stderr
    assert hint in result.stderr
    assert result.stdout == ""


def test_devices_that_are_one_for_each_rank_are_no_mistake() -> None:
    seen = told(start(SLURM_RANK, step(more={"MUSTER_GPUS": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3"})))

    assert seen["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


def test_visibility_one_leaves_each_rank_its_own_device() -> None:
    wanted = {"MUSTER_GPUS": "4", "CUDA_VISIBLE_DEVICES": "4,5,6,7", "MUSTER_VISIBILITY": "one"}
    parts = tuple("one_gpu" if part == "gpus" else part for part in SLURM_RANK)
    seen = told(start(parts, step(local_rank=2, rank=2, more=wanted)))

    assert (seen["CUDA_VISIBLE_DEVICES"], seen["LOCAL_RANK"]) == ("6", "2")


@each_shell
@pytest.mark.parametrize("tools", [("grep",), ()], ids=["grep", "no tool"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_refused_by_rank_0_and_by_nobody_else(
    tmp_path: Path, address: str, tools: tuple[str, ...], shell: tuple[str, ...]
) -> None:
    """An image without grep does not look: torch then reports the port. This machine has grep, so its folders go."""
    node = "" if tools else "PATH=/usr/bin:/bin:$PATH "
    for tool in (*tools, "env"):
        found = shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert found is not None, tool
        (tmp_path / tool).symlink_to(found)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as squatter:
        squatter.bind((address, 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        taken = {"MUSTER_PORT": str(port), "PATH": str(tmp_path)}
        refused = start(SLURM_RANK, step(more=taken), shell=shell, without=node)
        other = start(SLURM_RANK, step(rank=1, local_rank=1, more=taken), shell=shell, without=node)
    after = start(SLURM_RANK, step(more=taken), shell=shell, without=node)

    if "grep" in tools:
        assert refused.status == 2
        assert "is taken by another program" in refused.stderr
    else:
        assert (refused.ok, refused.stderr) == (True, "")
    assert other.ok
    assert told(after)["MASTER_PORT"] == str(port)


def test_looking_for_a_free_port_reads_no_table_line_by_line(tmp_path: Path) -> None:
    """bash goes back in the kernel's table after each line: 24 s where 4,000 sockets are open."""
    trace = tmp_path / "trace"
    text = f"{compose(('meeting',))}\nmuster_port_is_taken 1"
    with ExitStack() as opened:
        for _ in range(100):
            opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        run(["strace", "-f", "-qq", "-e", "trace=lseek", "-o", str(trace), "bash", "-c", text])
    assert len(trace.read_text().splitlines()) < 50


def test_ports_that_slurm_reserved_for_the_step_come_before_the_ids() -> None:
    assert (
        told(start(SLURM_RANK, step(rank=1, more={"SLURM_STEP_RESV_PORTS": "12005-12006"})))["MASTER_PORT"] == "12005"
    )


def test_only_rank_0_reads_the_standard_input() -> None:
    text = compose(SLURM_RANK)
    path = {"PATH": "/usr/bin:/bin"}

    said = [
        run(["sh", "-c", text, "muster", "cat"], env={**path, **step(rank=rank)}, stdin="hi").stdout for rank in (0, 1)
    ]

    assert said == ["hi", ""]


FOUR_CORES = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
EIGHT_CORES = {cpu: str(cpu) for cpu in range(8)}
LUMI = {cpu: f"{cpu % 64},{cpu % 64 + 64}" for cpu in range(128)}


@each_shell
@pytest.mark.parametrize(
    ("siblings", "mask", "local_size", "asked", "expected"),
    [
        (EIGHT_CORES, "0-7", "4", "0", "2"),  # nothing bound: the node's ranks divide it
        (EIGHT_CORES, "0-7", "4", "2", "2"),
        (EIGHT_CORES, "2-3", "4", "2", "2"),  # bound to its own two
        (FOUR_CORES, "0-7", "1", "0", "4"),  # hardware threads are not cores
        (FOUR_CORES, "1,5", "4", "2", "1"),
        (FOUR_CORES, "5", "4", "0", "1"),  # the second thread of a core is that core
        (EIGHT_CORES, "0-7", "16", "0", "1"),  # never none
        (LUMI, "49-55", "8", "7", "7"),  # LUMI's mask of local rank 0
        (LUMI, "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63", "8", "7", "7"),  # LUMI without binding
        (LUMI, "49-55,113-119", "8", "14", "7"),
    ],
)
def test_threads_are_the_cores_of_the_mask_divided_by_those_who_share_it(
    shell: tuple[str, ...],
    tmp_path: Path,
    siblings: dict[int, str],
    mask: str,
    local_size: str,
    asked: str,
    expected: str,
) -> None:
    machine = fake_topology(tmp_path, siblings, mask)
    environment = step(per_node=local_size, node_count=1, size=int(local_size), more={"MUSTER_CPUS": asked, **machine})

    assert told(start(SLURM_RANK, environment, shell=shell))["OMP_NUM_THREADS"] == expected


def test_threads_that_the_user_set_are_kept() -> None:
    assert told(start(SLURM_RANK, step(more={"OMP_NUM_THREADS": "3"})))["OMP_NUM_THREADS"] == "3"


def test_a_rank_on_one_cpu_of_the_many_that_were_asked_for_is_refused(tmp_path: Path) -> None:
    result = start(SLURM_RANK, step(more={"MUSTER_CPUS": "8", **fake_topology(tmp_path, EIGHT_CORES, "3")}))

    assert result.status == 2
    assert "may use only one CPU (number 3) of the 8" in result.stderr


@each_shell
def test_open_mpi_names_the_rank_where_slurm_names_the_daemon(shell: tuple[str, ...]) -> None:
    here = Path("/proc/sys/kernel/hostname").read_text().strip()
    seen = told(
        start(
            MPI_RANK,
            {
                **step(rank=1, node=1, size=2),
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "MUSTER_NODES": f"first {here}",
                "MUSTER_PORT": "23456",
            },
            shell=shell,
        )
    )

    assert [seen[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")] == [
        *("3", "4", "1", "2", "1")
    ]
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("first", "23456")


@each_shell
def test_a_rank_of_mpirun_that_stops_before_its_command_says_which_it_is(shell: tuple[str, ...]) -> None:
    numbers = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    more = {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MUSTER_DIRECTORY": "/not/there", "SLURMD_NODENAME": "node4"}
    stopped = start(MPI_RANK, {**step(rank=1, node=1, size=2), **numbers, **more}, shell=shell)

    assert stopped.status == 2
    assert "does not see the working directory /not/there" in stopped.stderr
    failure = failure_in(stopped.stderr, "mpirun")
    assert failure is not None
    assert (failure.tasks, failure.host, failure.status) == ((3,), "node4", 2)
    assert "muster: rank" not in start(SLURM_RANK, {**step(), **more}, shell=shell).stderr


def test_the_node_prologue_runs_once_and_its_failure_names_the_node() -> None:
    parts = ["stop", "meeting", "rank_slurm", "once_per_node"]
    here = Path("/proc/sys/kernel/hostname").read_text().strip()
    text = compose(parts) + '\nmuster_node_prologue sh -c "exit 4"\nexec "$@"'

    job = str(os.getpid())  # the mark lies in the machine's /tmp
    alone = step(size=1, per_node="1", nodes="node1", node_count=1, more={"SLURM_JOB_ID": job})
    result = run(["sh", "-c", text, "muster", "true"], env={"PATH": "/usr/bin:/bin", **alone})

    assert result.status == 2
    assert f"failed on {here} with status 4" in result.stderr
    assert list(Path("/tmp").glob(f".muster-{job}*")) == []


@pytest.mark.parametrize(
    ("name", "words"), [pytest.param(name, (), id=name) for name in sorted(set(CHOICES) - {"auto"})]
)
@pytest.mark.programs
def test_every_prologue_passes_shellcheck(name: str, words: tuple[str, ...], tmp_path: Path) -> None:
    from launch.plans import plan

    planned = plan(*words, launcher=name)
    for prologue in launcher_named(planned.launcher).prologues(planned):
        if prologue.variable == KEEPER:  # in Python
            continue
        script = tmp_path / f"{prologue.variable}.sh"
        script.write_text("#!/bin/sh\n" + prologue_text(planned, prologue))
        # SC2034: not every prologue uses all that is known; SC2153: MUSTER_PORT and MASTER_PORT are both meant.
        result = run(["shellcheck", "-s", "sh", "-e", "SC2034,SC2153", str(script)])
        assert result.ok, result.stdout


@each_shell
def test_each_port_of_a_role_that_is_taken_on_this_node_is_named(shell: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        asked = {contract.ROLE: "ray", contract.ROLE_PORT: str(port - 2), "muster_local_size": "1"}
        parts = ("stop", "meeting", "role_port")
        seen = start(parts, {**asked, contract.ROLE_PORTS: "3"}, shell=shell)
        others = [{contract.ROLE_PORTS: "2"}, {contract.ROLE_PORTS: "3", "muster_local_size": "2"}, {}]

        assert seen.status == 2
        assert f"port {port} of {os.uname().nodename}, where role ray is to listen, is taken" in seen.stderr
        assert [start(parts, {**asked, **other}, shell=shell).stderr for other in others] == ["", "", ""]
