"""Guards that a machine which cannot hold a lab says what it lacks, and the command that fixes it."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.errors import MachineLacks
from muster_lab.requirements import IdRange, check_programs, namespaces_refused, subordinate_ranges
from muster_lab.spec import LabSpec

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"


def all_but(*missing: str) -> Callable[[str], str | None]:
    return lambda program: None if program in missing else f"/usr/sbin/{program}"


@pytest.mark.parametrize(
    ("missing", "spec", "ordinary_user", "packages"),
    [
        (["slurmctld"], LabSpec(), False, "slurmctld"),
        (["slurmctld", "slurmd", "munged"], LabSpec(), False, "munge slurmctld slurmd"),
        (["newuidmap", "newgidmap"], LabSpec(), True, "uidmap"),
        (["mariadbd", "slurmdbd"], LabSpec(accounting=True), False, "mariadb-server-core slurmdbd"),
        (["ip"], LabSpec(slurm="24.11"), False, "iproute2"),
    ],
)
def test_what_is_missing_is_named_with_its_package(
    missing: list[str], spec: LabSpec, ordinary_user: bool, packages: str
) -> None:
    with pytest.raises(MachineLacks) as caught:
        check_programs(spec, ordinary_user=ordinary_user, find=all_but(*missing))
    assert all(program in caught.value.message for program in missing)
    assert caught.value.hint is not None
    assert "apt-get update && " in caught.value.hint
    assert caught.value.hint.endswith(f"apt-get install --yes --no-install-recommends {packages}")


def test_the_tutorial_has_the_one_command_for_all_of_it() -> None:
    with pytest.raises(MachineLacks) as caught:
        check_programs(LabSpec(accounting=True), ordinary_user=True, find=lambda program: None)
    page = Path(__file__).parents[2] / "docs/tutorial/first-job.md"
    (command,) = re.findall(r"^sudo apt-get update (?:.*\\\n)*.*$", page.read_text(), flags=re.MULTILINE)
    as_typed = " ".join(command.replace("\\\n", " ").replace("sudo ", "").split())
    assert as_typed == str(caught.value.hint).replace("sudo ", "")


@pytest.mark.parametrize(
    ("missing", "spec", "ordinary_user"),
    [
        (["newuidmap"], LabSpec(), False),
        (["slurmdbd", "mariadbd"], LabSpec(), True),
        (["slurmctld", "slurmd", "srun"], LabSpec(slurm="26.05"), True),
    ],
)
def test_what_this_lab_does_not_need_may_be_missing(missing: list[str], spec: LabSpec, ordinary_user: bool) -> None:
    check_programs(spec, ordinary_user=ordinary_user, find=all_but(*missing))


def test_the_largest_range_of_the_user_is_taken() -> None:
    text = "other:1:999999\nme:100:50\nme:200000:65536\n1000:300000:70000\nbroken\nme:x:y\n"
    assert subordinate_ranges(text, text, "me", 1000) == (IdRange(300000, 70000),) * 2


@pytest.mark.parametrize(("text", "amount"), [("", "no"), ("me:100000:1000\n", "1000"), ("you:100000:65536\n", "no")])
def test_too_few_subordinate_ids_are_refused_with_usermod(text: str, amount: str) -> None:
    with pytest.raises(MachineLacks) as caught:
        subordinate_ranges("me:100000:65536\n", text, "me", 1000)
    assert f"me has {amount} subordinate ids in /etc/subgid" in caught.value.message
    assert "/etc/subuid" not in caught.value.message
    assert caught.value.hint is not None
    assert "usermod --add-subgids" in caught.value.hint


def test_the_ids_of_the_hint_are_nobodys_and_both_kinds_are_named() -> None:
    others = "nuser:100000:65536\nyou:165536:65536\n"
    with pytest.raises(MachineLacks) as caught:
        subordinate_ranges(others, "", "me", 1000)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("usermod --add-subuids 231072-296607 --add-subgids 100000-165535 me")


@pytest.mark.parametrize(
    ("values", "number", "uid", "hint"),
    [
        ({APPARMOR: "1"}, errno.EACCES, 1000, f"sysctl {APPARMOR}=0"),
        ({"kernel.unprivileged_userns_clone": "0"}, errno.EPERM, 1000, "sysctl kernel.unprivileged_userns_clone=1"),
        ({"user.max_user_namespaces": "0"}, errno.ENOSPC, 1000, "sysctl user.max_user_namespaces=65536"),
        ({}, errno.ENOSPC, 1000, "sysctl user.max_user_namespaces=65536"),
        ({}, errno.EPERM, 0, "CAP_SYS_ADMIN"),
        ({}, errno.EPERM, 1000, "seccomp"),
    ],
)
def test_forbidden_namespaces_are_explained(values: dict[str, str], number: int, uid: int, hint: str) -> None:
    error = namespaces_refused(number, uid, values.get)
    assert "forbids the namespaces" in error.message
    assert error.hint is not None
    assert hint in error.hint
