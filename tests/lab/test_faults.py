"""Guards that each fault is real, that status says it, and that `restore` undoes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import Lab, Person, lab_up

from .processes import becomes_true

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", params=["root", "ordinary"])
def faulty_lab(request: pytest.FixtureRequest, slurm_version: str) -> Iterator[Lab]:
    """A lab that these tests may break; each leaves it mended."""
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("by design: only root can make root's lab")
    person: Person = request.getfixturevalue("tester" if request.param == "root" else "ordinary_person")
    with lab_up(person, "faulty", "--slurm", slurm_version) as made:
        yield made


@pytest.fixture(autouse=True)
def mended(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails half-way does not break the next one."""
    yield
    if "faulty_lab" in request.fixturenames:
        checked(request.getfixturevalue("faulty_lab").muster("fault", "restore"))


def fault(lab: Lab, *words: str) -> None:
    said = checked(lab.muster("fault", *words)).stderr
    assert f"undo it: muster lab fault --name {lab.name} restore" in said


def restore(lab: Lab, *words: str) -> None:
    assert checked(lab.muster("fault", "restore", *words)).stderr.endswith(" repaired\n")
    assert not any(host["faults"] for host in status(lab)["hosts"])
    assert sorted(checked(lab.exec(["srun", "-N4", "hostname"])).stdout.split()) == list(lab.hosts)


def status(lab: Lab) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(checked(lab.muster("status", "--json")).stdout)
    return said


def faults_of(lab: Lab, host: str) -> list[str]:
    found: list[str] = next(each["faults"] for each in status(lab)["hosts"] if each["name"] == host)
    return found


def slurm_says(lab: Lab, host: str) -> str:
    return next(str(each["state"]) for each in status(lab)["hosts"] if each["name"] == host)


def controllers_view(lab: Lab, host: str) -> str:
    """What slurmctld knows and did: for the failure's report."""
    script = f"scontrol show node {host}; squeue; tail -n 40 /run/muster-lab/log/slurmctld.log"
    return lab.exec(["sh", "-c", script]).stdout


def reaches(lab: Lab, host: str) -> bool:
    """Whether the login host can open a connection to the host's slurmd."""
    return lab.exec(["timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{host}/6818"]).ok


def test_a_killed_node_is_gone_with_its_step_and_comes_back(faulty_lab: Lab, shared_directory: Path) -> None:
    beat = shared_directory / "beat"
    script = f"while :; do date +%N >{beat}; sleep 0.1; done"
    words = ["sbatch", "--parsable", "-wnode2", "--no-requeue", f"--wrap={script}"]
    job = checked(faulty_lab.exec(words, cwd=shared_directory)).stdout.strip()
    assert becomes_true(beat.exists)
    fault(faulty_lab, "kill-node", "node2")
    last = beat.read_text()
    assert not reaches(faulty_lab, "node2")
    assert faults_of(faulty_lab, "node2") == ["kill-node"]
    refused = faulty_lab.exec(["true"], host="node2")
    assert refused.status == 2
    assert "node2 is down" in refused.stderr
    is_down = becomes_true(lambda: slurm_says(faulty_lab, "node2").startswith("down"), timeout_s=150)
    assert is_down, controllers_view(faulty_lab, "node2")
    assert "NODE_FAIL" in faulty_lab.exec(["scontrol", "show", "job", job]).stdout
    assert beat.read_text() == last
    again = faulty_lab.muster("fault", "kill-node", "node2")
    assert again.status == 2
    assert "node2 is down already" in again.stderr
    restore(faulty_lab, "node2")
    assert checked(faulty_lab.exec(["hostname"], host="node2")).stdout == "node2\n"


def test_a_cut_link_carries_nothing_until_it_is_mended(faulty_lab: Lab) -> None:
    assert reaches(faulty_lab, "node1")
    fault(faulty_lab, "cut-link", "node1")
    assert faults_of(faulty_lab, "node1") == ["cut-link"]
    assert not reaches(faulty_lab, "node1")
    assert reaches(faulty_lab, "node3")
    restore(faulty_lab, "node1")


def test_a_slow_link_is_slow_in_both_directions(faulty_lab: Lab) -> None:
    fault(faulty_lab, "slow-link", "node4", "8mbit")
    assert faults_of(faulty_lab, "node4") == ["slow-link"]
    for host, device in ((None, "port4"), ("node4", "eth0")):
        assert "rate 8Mbit" in checked(faulty_lab.exec(["tc", "qdisc", "show", "dev", device], host=host)).stdout
    fault(faulty_lab, "slow-link", "node4", "4mbit")
    assert "rate 4Mbit" in faulty_lab.exec(["tc", "qdisc", "show", "dev", "port4"]).stdout
    restore(faulty_lab)
    assert "tbf" not in faulty_lab.exec(["tc", "qdisc", "show"]).stdout
    assert "tbf" not in faulty_lab.exec(["tc", "qdisc", "show"], host="node4").stdout


def test_a_paused_node_stands_still_and_goes_on(faulty_lab: Lab, shared_directory: Path) -> None:
    beat = shared_directory / "beat"
    script = f"i=0; while [ $i -lt 10000 ]; do i=$((i+1)); echo $i >>{beat}; sleep 0.1; done"
    words = ["sbatch", "--parsable", "-wnode3", f"--wrap={script}"]
    job = checked(faulty_lab.exec(words, cwd=shared_directory)).stdout.strip()
    assert becomes_true(beat.exists)
    fault(faulty_lab, "pause-node", "node3")
    assert faults_of(faulty_lab, "node3") == ["pause-node"]
    then = beat.read_text()
    states = checked(faulty_lab.exec(["ps", "-eo", "stat,args"])).stdout.splitlines()
    assert [line for line in states if "slurm_script" in line and line.startswith("T")]
    assert beat.read_text() == then
    checked(faulty_lab.muster("fault", "restore", "node3"))
    assert becomes_true(lambda: beat.read_text() != then)
    checked(faulty_lab.exec(["scancel", job]))
    restore(faulty_lab, "node3")


def test_a_full_tmp_refuses_the_next_byte(faulty_lab: Lab) -> None:
    write = ["srun", "-wnode2", "sh", "-c", "head -c 100000 /dev/zero >/tmp/mine"]
    fault(faulty_lab, "fill-tmp", "node2")
    assert faults_of(faulty_lab, "node2") == ["fill-tmp"]
    failed = faulty_lab.exec(write)
    assert failed.status != 0
    assert "No space left" in failed.stderr
    restore(faulty_lab, "node2")
    checked(faulty_lab.exec(write))


def test_a_stopped_controller_is_silent_until_it_goes_on(faulty_lab: Lab) -> None:
    fault(faulty_lab, "stop-controller")
    assert status(faulty_lab)["controller"] == "stopped"
    assert faulty_lab.exec(["timeout", "3", "squeue"]).status == 124
    restore(faulty_lab, "controller")
    assert status(faulty_lab)["controller"] == "up"


@pytest.mark.parametrize("daemon", ["slurmctld", "munged"])
def test_a_daemon_that_was_killed_starts_again(faulty_lab: Lab, daemon: str) -> None:
    checked(faulty_lab.exec(["sh", "-c", f"kill -9 $(pidof {daemon})"]))
    if daemon == "slurmctld":
        assert becomes_true(lambda: status(faulty_lab)["controller"] == "stopped")
    restore(faulty_lab)
    assert status(faulty_lab)["controller"] == "up"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["kill-node"], "kill-node takes H, not nothing"),
        (["kill-node", "node9"], "there is no host in this lab named 'node9'"),
        (["slow-link", "node1"], "slow-link takes H RATE, not node1"),
        (["slow-link", "node1", "fast"], "tc cannot slow the link to 'fast'"),
        (["stop-controller", "node1"], "stop-controller takes no host, not node1"),
        (["restore", "node1", "node2"], "restore takes [H|controller|all], not node1 node2"),
        (["restore", "login"], "there is no host in this lab named 'login'"),
        (["melt", "node1"], "there is no fault named 'melt'"),
        ([], "muster lab fault needs the name of a fault"),
    ],
)
def test_what_cannot_be_broken_is_refused_with_a_hint(lab: Lab, words: list[str], complaint: str) -> None:
    answer: ProgramResult = lab.muster("fault", *words)
    assert answer.status == 2
    assert answer.stderr.startswith(f"muster: error: {complaint}")
    assert "\n\nhint: " in answer.stderr
