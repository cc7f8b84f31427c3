"""The wire-up asks nobody: not one packet leaves the prologue, not one request more reaches the controller."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.render.parts import compose
from muster.runner import checked
from plugins.labs import Lab

from .shells import SLURM_RANK

pytestmark = pytest.mark.lab


def test_the_wire_up_sends_no_packet(lab: Lab, shared_directory: Path) -> None:
    """strace of every task of a real step; execve shows that it saw the prologue at all.

    `ss` asks the kernel for the listening ports through a netlink socket, by which nothing leaves the host.
    """
    trace = ["strace", "-f", "-e", "trace=network,execve", "-o"]
    start = f'exec {" ".join(trace)} "{shared_directory}/$SLURM_PROCID" sh -c "$0" muster true'
    checked(lab.exec(["srun", "-N2", "-n4", "--mpi=none", "sh", "-c", start, compose(SLURM_RANK)]))

    traces = sorted(shared_directory.iterdir())
    assert len(traces) == 4
    for path in traces:
        text = path.read_text()
        assert re.search(r"^[0-9]+ +execve\(", text, re.MULTILINE)
        families = re.findall(r"^[0-9]+ +socket(?:pair)?\((\w+)", text, re.MULTILINE)
        assert set(families) <= {"AF_NETLINK"}, text


def requests(lab: Lab) -> dict[str, int]:
    """What the controller has been asked, by kind."""
    said = checked(lab.exec(["sdiag"])).stdout
    by_type = said.partition("Remote Procedure Call statistics by message type")[2].partition("by user")[0]
    return {name: int(count) for name, count in re.findall(r"(\w+) *\( *[0-9]+\) count:([0-9]+)", by_type)}


# The controller's own rounds, and the counting.
_OF_ITS_OWN = re.compile(r"PING|NODE_REGISTRATION|STATS_INFO|MESSAGE_EPILOG|COMPLETE_PROLOG")


def asked(lab: Lab, *argv: str) -> dict[str, int]:
    """The requests that a step makes."""
    before = requests(lab)
    checked(lab.exec(argv))
    after = requests(lab)
    kinds = (name for name in after if not _OF_ITS_OWN.search(name))
    return {name: after[name] - before.get(name, 0) for name in kinds if after[name] != before.get(name, 0)}


def test_the_wire_up_asks_the_controller_nothing(lab: Lab) -> None:
    step = ("srun", "-N4", "-n8", "--mpi=none")
    asked(lab, *step, "true")  # the first step of a lab registers its nodes

    bare = asked(lab, *step, "true")
    wired = asked(lab, *step, "sh", "-c", compose(SLURM_RANK), "muster", "true")

    assert bare
    assert wired == bare
