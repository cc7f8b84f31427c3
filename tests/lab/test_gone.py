"""Guards "gone means gone": whatever ends a lab, no process, mount, interface or file of it is left on the machine."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from muster.runner import checked, end_group, run, start
from plugins.labs import Lab, Person

from .processes import Process, alive, becomes_true, descendants, of_the_machine, with_word

pytestmark = pytest.mark.lab


@pytest.fixture(params=["root", "ordinary"])
def person(request: pytest.FixtureRequest) -> Person:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("by design: only root can make root's lab")
    made: Person = request.getfixturevalue("tester" if request.param == "root" else "ordinary_person")
    return made


def first_process(lab: Lab) -> int:
    pid: int = json.loads(checked(lab.muster("status", "--json")).stdout)["pid"]
    return pid


def entries(person: Person) -> set[str]:
    return {file.name for file in (person.home / ".local/state/muster/labs").iterdir()}


def test_after_down_nothing_is_left(person: Person, new_lab: Callable[..., Lab]) -> None:
    before = of_the_machine()
    lab = new_lab("-N", "3", "--accounting", person=person)
    members = descendants(first_process(lab))
    assert len(members) >= 10  # the first process, munged, slurmctld, slurmdbd, mariadbd, and two for each host
    checked(lab.muster("down"))
    assert not alive(members)
    assert of_the_machine() == before
    assert f"{lab.name}.json" not in entries(person)


def test_after_the_first_process_is_killed_only_an_entry_is_left_and_the_next_verb_clears_it(
    person: Person, new_lab: Callable[..., Lab]
) -> None:
    before = of_the_machine()
    lab = new_lab("-N", "2", person=person)
    pid = first_process(lab)
    members = descendants(pid)
    os.kill(pid, signal.SIGKILL)
    assert becomes_true(lambda: not alive(members))
    assert of_the_machine() == before
    assert f"{lab.name}.json" in entries(person)
    answer = lab.muster("status")
    assert answer.status == 2
    assert answer.stderr == f"muster: error: no lab named {lab.name!r} is up\n\nhint: {hint(person)}\n"
    assert f"{lab.name}.json" not in entries(person)
    checked(lab.person.muster("lab", "up", "--name", lab.name, "-N", "1"))  # the name is free again


def hint(person: Person) -> str:
    others = sorted(name.removesuffix(".json") for name in entries(person))
    return f"up: {', '.join(others)}" if others else "muster lab up makes one"


@pytest.mark.parametrize(
    ("person", "after_s"),
    [("root", 0.05), ("ordinary", 0.15), ("root", 0.3), ("ordinary", 0.5), ("root", 0.8)],
    indirect=["person"],
)
def test_an_up_that_is_killed_leaves_nothing(person: Person, after_s: float, tmp_path: Path) -> None:
    before = of_the_machine()
    name = f"killed-{uuid4().hex}"
    up = begin_up(person, name, tmp_path, "-N", "64")
    time.sleep(after_s)  # the moment is arbitrary: whatever stands by then has to go
    os.killpg(up.pid, signal.SIGSTOP)  # a look at all processes takes long enough for a lab to come up
    members = with_word(name)
    has_ended = up.poll()
    if has_ended is None:
        os.killpg(up.pid, signal.SIGKILL)
        up.wait()
    else:  # a busy machine woke this test too late: the lab is whole, and goes as such
        assert has_ended == 0
        checked(person.muster("lab", "exec", "--name", name, "--", "srun", "-N64", "true"))
        checked(person.muster("lab", "down", "--name", name))
    assert becomes_true(lambda: not with_word(name) and not alive(members))
    assert of_the_machine() == before
    checked(person.muster("lab", "up", "--name", name, "-N", "1"))
    checked(person.muster("lab", "down", "--name", name))


@pytest.mark.parametrize("moment", ["it begins", "hosts start"])
def test_an_interrupted_up_ends_with_130_and_leaves_nothing(person: Person, tmp_path: Path, moment: str) -> None:
    name = f"interrupted-{uuid4().hex}"
    up = begin_up(person, name, tmp_path, "-N", "16")
    members: set[Process] = set()

    def hosts_are_starting() -> bool:
        hosts = with_word(name)  # at this moment: ordinary_user.sh has the word too, again and again
        members.update(hosts)
        return len(hosts) > 8

    entry = person.home / f".local/state/muster/labs/{name}.json"
    assert becomes_true(hosts_are_starting if moment == "hosts start" else entry.exists)
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(timeout=30) == 130
    assert becomes_true(lambda: not with_word(name) and not alive(members))
    assert f"{name}.json" not in entries(person)
    said = (tmp_path / "said").read_text()
    assert said.endswith(f"muster: interrupted: what was begun of the lab {name!r} is gone\n")
    assert "Traceback" not in said


_FORKS = """\
import os, signal
from muster_lab import kernel
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
print(os.waitstatus_to_exitcode(os.waitpid(kernel.fork(lambda: 0), 0)[1]))
"""


def test_ctrl_c_at_the_moment_of_a_fork_ends_the_new_process_without_a_word(tester: Person) -> None:
    ended = checked(run([sys.executable, "-c", _FORKS], env=tester.environment(), timeout_s=60))
    assert (ended.stdout, ended.stderr) == (f"{-signal.SIGINT}\n", "")


def begin_up(person: Person, name: str, folder: Path, *words: str):  # type: ignore[no-untyped-def]
    with (folder / "said").open("wb") as said:
        argv = person.argv("lab", "up", "--name", name, *words)
        return start(argv, env=person.environment(), stdout=said, stderr=said, own_group=True)


def test_a_lab_that_cannot_come_up_says_why_and_leaves_nothing(tester: Person, tmp_path: Path) -> None:
    name = f"broken-{uuid4().hex}"
    program = f"""\
import os, sys
from muster.errors import SiteError
from muster_lab.labs import up
from muster_lab.spec import LabSpec
try:
    up(LabSpec(name={name!r}, options=(("SelectType", "select/nonsense"),)), os.environ, print)
except SiteError as error:
    print(error.message, "|", error.hint)
"""
    said = checked(run([sys.executable, "-c", program], env=tester.environment(), timeout_s=60)).stdout
    assert "slurmctld ended while the lab came up" in said
    assert "select/nonsense" in said
    assert f"{name}.json" not in entries(tester)
    assert becomes_true(lambda: not with_word(name))


def test_labs_stand_side_by_side(person: Person) -> None:
    names = [f"beside-{number}-{uuid4().hex[:8]}" for number in range(3)]
    ups = [
        start(person.argv("lab", "up", "--name", name, "-N", "2"), env=person.environment(), own_group=True)
        for name in names
    ]
    try:
        assert [up.wait(timeout=120) for up in ups] == [0, 0, 0]
        for name in names:
            lab = Lab(person, name)
            assert sorted(checked(lab.exec(["srun", "-N2", "hostname"])).stdout.split()) == ["node1", "node2"]
    finally:
        for up in ups:
            end_group(up)
        downs = [person.muster("lab", "down", "--name", name).status for name in names]
    assert downs == [0, 0, 0]


def test_of_two_labs_with_one_name_the_second_is_refused(tester: Person, lab: Lab) -> None:
    answer = tester.muster("lab", "up", "--name", lab.name)
    assert answer.status == 2
    assert answer.stderr.startswith(f"muster: error: a lab named {lab.name!r} is already up\n\nhint: ")


def test_down_of_nothing_is_refused(tester: Person) -> None:
    answer = tester.muster("lab", "down", "--name", "never-was")
    assert answer.status == 2
    assert "no lab named 'never-was' is up" in answer.stderr
