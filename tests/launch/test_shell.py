"""muster shell: one line, a real terminal, on the first node of a job; the queue is the site's own for that."""

from __future__ import annotations

import os
import pty
import re
import select
import time

import pytest

from muster.job.request import Request
from muster.plan.interactive import for_a_shell
from muster.sites.heads import heads
from muster.sites.load import load
from plugins.labs import MUSTER, Lab

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


@pytest.mark.lab
def test_a_shell_has_a_terminal_on_a_node_and_the_gpus_and_cores_it_asked_for(lab: Lab) -> None:
    command = [
        MUSTER,
        "shell",
        "--quiet",
        "-g",
        "2",
        "-c",
        "3",
        "--export",
        "ALL",
        "--env",
        f"PS1={PROMPT}",
        "--",
        "sh",
        "-i",
    ]

    status, screen = converse(
        lab.argv(command),
        lab.person.environment(),
        ["hostname; tty\n", "echo gpus=$CUDA_VISIBLE_DEVICES cpus=$SLURM_CPUS_PER_TASK\n", "exit 5\n"],
    )

    assert re.search(r"^node[1-4]\r?$", screen, re.MULTILINE), screen
    assert re.search(r"^/dev/pts/[0-9]+\r?$", screen, re.MULTILINE), screen
    assert "gpus=0,1 cpus=3" in screen
    assert status == 5


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
        chosen = site.profile.partitions.get(asked.partition or "") or site.profile.qos.get(asked.qos or "")

        assert asked.command == ("/bin/bash", "-i")
        assert asked.ntasks_per_node == 1
        assert (chosen is None) == (not {"interactive", "debug"} & set(kept))
        assert chosen is None or chosen.purpose == ("interactive" if "interactive" in kept else "debug")
        assert for_a_shell(Request(command=("x",), partition="mine"), site, "sh").partition == "mine"
