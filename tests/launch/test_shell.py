"""muster shell: one line, a real terminal, on the first node of a job; the queue is the site's own for that."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import time
from collections.abc import Callable

import pytest

from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.plan.build import make_plan
from muster.plan.interactive import for_a_shell
from muster.sites.heads import heads
from muster.sites.load import load
from muster.units import Walltime
from plugins.labs import MUSTER, Lab

from .plans import FACTS

PROMPT = "ready> "


def converse(argv: list[str], environment: dict[str, str], lines: list[str]) -> tuple[int, str]:
    """Type each line when the prompt is there; (exit status, everything that was on the screen)."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(argv[0], argv, {**environment, "TERM": "dumb"})  # noqa: S606  # a list, and our own
    screen, waiting = "", list(lines)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown = os.read(terminal, 4096)
        except OSError:
            break
        if not shown:
            break
        screen += shown.decode(errors="replace")
        if waiting and screen.endswith(PROMPT):
            os.write(terminal, waiting.pop(0).encode())
            screen += "\n"
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), screen


def shell(*options: str) -> list[str]:
    """`muster shell`, with a prompt that can be waited for."""
    words = ["--export", "ALL", "--env", f"PS1={PROMPT}", "--", "sh", "-i"]
    return [MUSTER, "shell", "--quiet", *options, *words]


@pytest.mark.lab
def test_a_shell_has_a_terminal_on_a_node_and_the_gpus_and_cores_it_asked_for(lab: Lab) -> None:
    status, screen = converse(
        lab.argv(shell("-g", "2", "-c", "3")),
        lab.person.environment(),
        ["hostname; tty\n", "echo gpus=$CUDA_VISIBLE_DEVICES cpus=$SLURM_CPUS_PER_TASK\n", "exit 5\n"],
    )

    assert re.search(r"^node[1-4]\r?$", screen, re.MULTILINE), screen
    assert re.search(r"^/dev/pts/[0-9]+\r?$", screen, re.MULTILINE), screen
    assert "gpus=0,1 cpus=3" in screen
    assert screen.partition("exit 5")[2].split(":")[0].strip() == "srun", "nothing of ours is said when it ends"
    assert status == 5


@pytest.mark.lab
def test_a_shell_heeds_what_is_set_of_the_site_and_has_the_cores_of_its_gpus(lab: Lab) -> None:
    wrong = lab.exec([MUSTER, "shell", "--site-set", "launch.prefered=srun", "--", "true"])
    assert (wrong.status, "prefered" in wrong.stderr) == (2, True), wrong.stderr
    told = lab.exec([MUSTER, "shell", "-g", "1", "--", "printenv", "SLURM_CPUS_PER_TASK"])
    assert told.status == 0, told.stderr
    assert told.stdout.strip() == "2", "as Slurm shows its nodes: 8 CPUs for 4 GPUs"
    assert "srun: error" not in told.stderr, "no terminal is asked for where there is none"


@pytest.mark.lab
def test_a_shell_opens_in_the_allocation_it_stands_in_and_leaves_it_standing(lab: Lab) -> None:
    """Typed in salloc's shell on the login host: on the first of its nodes, twice, in one job, whose GPUs it has."""
    inner = shlex.join(shell())
    looks = f"{inner}; echo status=$?; {inner}; scontrol show --oneliner job $SLURM_JOB_ID; exit 4"
    salloc = ["salloc", "--quiet", "-N2", "--nodelist=node2,node3", "--gpus-per-node=3", "sh", "-c", looks]

    status, screen = converse(
        lab.argv(salloc),
        lab.person.environment(),
        [
            "hostname; tty; echo job=$SLURM_JOB_ID gpus=$CUDA_VISIBLE_DEVICES\n",
            "exit 5\n",
            "echo again=$SLURM_JOB_ID on $SLURM_JOB_NUM_NODES; srun --overlap -N2 -n2 hostname\n",
            "exit\n",
        ],
    )

    (job,) = re.findall(r"^job=([0-9]+) gpus=0,1,2\r?$", screen, re.MULTILINE)
    assert re.search(r"^node2\r?$", screen, re.MULTILINE), screen
    assert re.search(r"^/dev/pts/[0-9]+\r?$", screen, re.MULTILINE), screen
    assert "status=5" in screen
    assert f"again={job} on 2" in screen
    assert re.search(r"^node3\r?$", screen, re.MULTILINE), "the rest of the allocation is within reach"
    assert f"JobId={job} " in screen
    assert "JobState=RUNNING" in screen
    assert status == 4


@pytest.mark.lab
def test_a_shell_for_half_a_node_on_the_sites_interactive_queue_has_the_cores_of_its_gpus(
    new_lab: Callable[..., Lab], slurm_version: str
) -> None:
    """MareNostrum 5's: 4 GPUs and 80 cores a node; its queue for this is a QOS."""
    lab = new_lab("--like", "marenostrum5", "-N", "1", "--slurm", slurm_version)
    options = ("--site", "marenostrum5", "-A", "bsc98", "-t", "10", "-g", "2")
    ask = "squeue --noheader --job=$SLURM_JOB_ID --format=qos=%q:cpus=%C:nodes=%D\n"

    status, screen = converse(
        lab.argv(shell(*options)),
        lab.person.environment(),
        ["tty; echo gpus=$CUDA_VISIBLE_DEVICES task=$SLURM_CPUS_PER_TASK\n", ask, "exit\n"],
    )

    assert re.search(r"^/dev/pts/[0-9]+\r?$", screen, re.MULTILINE), screen
    assert "gpus=0,1 task=40" in screen
    assert "qos=acc_interactive:cpus=80:nodes=1" in screen, "40 cores, of two threads each, and not the other 40"
    assert status == 0


def test_half_a_node_has_half_its_cores_wherever_they_are_known() -> None:
    for name in ("snellius", "juwels-booster", "karolina", "supercloud"):
        site = load(name)
        given = Request(
            command=(),
            gpus_per_node=2,
            account="phys",
            time=Walltime(600),
            origins={"gpus_per_node": ValueOrigin(OriginKind.OPTION, "-g")},
        )
        plan = make_plan(for_a_shell(given, site, "/bin/bash"), site, FACTS, typed=())
        node = next(each for each in site.profile.nodes.values() if each.cores_per_gpu)
        assert plan.shape.ntasks == 1, name
        assert plan.shape.gpus_per_node == 2, name
        assert plan.shape.cpus_per_task == 2 * (node.cores_per_gpu or 0), name


@pytest.mark.parametrize(
    ("name", "partition", "qos"),
    [("leonardo", "boost_usr_prod", "boost_qos_dbg"), ("frontier", "batch", "debug")],
)
def test_a_site_that_wants_a_partition_beside_the_queue_for_this_gets_both(name: str, partition: str, qos: str) -> None:
    site = load(name)
    given = Request(command=(), account=site.profile.request.account_example or "phys", time=Walltime(600))
    plan = make_plan(for_a_shell(given, site, "/bin/bash"), site, FACTS, typed=())
    header = {each.name: each.value for each in plan.directives}
    assert (header["partition"], header["qos"]) == (partition, qos)


def test_the_queue_is_the_sites_interactive_or_debug_one_unless_one_is_named() -> None:
    for head in heads():
        site = load(head.name)
        asked = for_a_shell(Request(command=()), site, "/bin/bash")
        kept = [
            queue.purpose
            for table in (site.profile.partitions, site.profile.qos)
            for queue in table.values()
            if queue.open
        ]
        chosen = site.profile.qos.get(asked.qos or "") or site.profile.partitions.get(asked.partition or "")

        assert asked.command == ("/bin/bash", "-i")
        assert asked.ntasks_per_node == 1
        assert (chosen is None) == (not {"interactive", "debug"} & set(kept))
        assert chosen is None or chosen.purpose == ("interactive" if "interactive" in kept else "debug")
        assert for_a_shell(Request(command=("x",), partition="mine"), site, "sh").partition == "mine"
