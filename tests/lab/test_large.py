"""Guards a lab of so many hosts that packets between them pass through the login host."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from muster.runner import checked
from muster_lab.config import MOST_NEIGHBOURS
from plugins.labs import Lab, Person

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOSTS = MOST_NEIGHBOURS + 2
TALK = """\
import socket, sys
listener = socket.create_server(("", 7000))
print("ready", flush=True)
connection, peer = listener.accept()
print(peer[0])
"""


@pytest.mark.parametrize("who", ["tester", "ordinary"])
def test_a_large_lab_runs_one_step_on_all_hosts_which_reach_each_other(
    new_lab: Callable[..., Lab], tester: Person, ordinary_person: Person, who: str
) -> None:
    lab = new_lab("-N", str(HOSTS), person=tester if who == "tester" else ordinary_person)
    said = checked(lab.exec(["srun", f"-N{HOSTS}", "hostname"])).stdout.split()
    assert sorted(said) == sorted(f"node{number}" for number in range(1, HOSTS + 1))
    status = json.loads(lab.muster("status", "--json").stdout)
    assert 1 < status["memory_mib"] / HOSTS < 20

    ask = "import socket; socket.create_connection(('node2', 7000), 30)"
    both = f'case $(hostname) in node2) python3 -c "$1" ;; *) sleep 2; python3 -c "{ask}" ;; esac'
    talk = checked(lab.exec(["srun", "-wnode[2-3]", "sh", "-c", both, "sh", TALK])).stdout
    assert "10.77.0.4" in talk.split(), "the listener sees the host itself, not the login host"
    # Nobody had to ask for a hardware address.
    asked = lab.exec(["ip", "-4", "neigh", "show", "nud", "reachable", "nud", "stale", "nud", "delay"], host="node2")
    assert asked.stdout == ""


def test_a_host_of_a_large_lab_comes_back(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab("-N", str(HOSTS))
    checked(lab.muster("fault", "kill-node", "node7"))
    checked(lab.muster("fault", "restore", "node7"))
    assert checked(lab.exec(["srun", "-wnode7,node8", "hostname"])).stdout.split().count("node7") == 1
