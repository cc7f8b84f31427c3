"""Guards what the verbs about jobs say of a job that is somebody else's, and of a user with two accounts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab, Person, lab_up

pytestmark = pytest.mark.lab

As = Callable[..., ProgramResult]


@pytest.fixture(scope="module")
def shared_lab(ordinary_person: Person, slurm_version: str) -> Iterator[Lab]:
    """An ordinary user's, in which other users reach the checkout; alice may charge two accounts."""
    with lab_up(ordinary_person, "people", "-N", "2", "--accounting", "--slurm", slurm_version) as lab:
        sacctmgr = "sacctmgr -i add account second >/dev/null && sacctmgr -i add user alice account=second >/dev/null"
        checked(lab.exec(["sh", "-c", sacctmgr], cwd="/"))
        yield lab


@pytest.fixture
def people(shared_lab: Lab) -> Iterator[As]:
    """A function that runs words as alice or bob, whose own records of jobs lie in their homes."""

    def become(user: str, *words: str) -> ProgramResult:
        inside = ["sh", "-c", 'cd; XDG_STATE_HOME=$HOME/state exec "$@"', "sh", *words]
        return shared_lab.exec(inside, user=user)

    yield become
    for user in ("alice", "bob"):
        checked(shared_lab.exec(["scancel", f"--user={user}"], cwd="/"))


def batch(people: As, user: str, script: str, *options: str) -> str:
    return checked(people(user, "sbatch", "--parsable", *options, "--wrap", script)).stdout.strip()


def test_jobs_lists_those_of_all_accounts_and_names_them(people: As) -> None:
    first = batch(people, "alice", "true", "--account=lab", "--hold", "--output=/dev/null")
    alone = checked(people("alice", MUSTER, "jobs")).stdout
    second = batch(people, "alice", "true", "--account=second", "--hold", "--output=/dev/null")
    theirs = batch(people, "bob", "true", "--hold", "--output=/dev/null")

    table = checked(people("alice", MUSTER, "jobs")).stdout.splitlines()
    listed = {
        each["job"]: each["account"] for each in json.loads(checked(people("alice", MUSTER, "jobs", "--json")).stdout)
    }

    assert "account" not in alone, "one account needs no column"
    assert table[0].split() == ["job", "name", "state", "nodes", "partition", "account", "what"]
    assert [line.split()[5] for line in table[1:] if line.split()[0] in {first, second}] == ["lab", "second"]
    assert (listed[first], listed[second]) == ("lab", "second")
    assert theirs not in listed


def test_the_ranks_of_somebody_elses_job_are_theirs(people: As) -> None:
    theirs = batch(people, "bob", "sleep 600", "--output=/dev/null")
    while "RUNNING" not in people("alice", MUSTER, "why", theirs).stdout:
        time.sleep(0.3)
    sentence = f"job {theirs} belongs to another user"
    for verb in ("stacks", "top"):
        done = people("alice", MUSTER, verb, theirs)
        assert (done.status, sentence in done.stderr) == (2, True), done.stderr
        assert "hint: only its owner can look into its processes" in done.stderr
    shell = people("alice", MUSTER, "shell", theirs, "--", "true")
    assert (shell.status, f"job {theirs} belongs to bob" in shell.stderr) == (2, True), shell.stderr
    url = people("alice", MUSTER, "url", theirs)
    assert "was not submitted by Muster" not in url.stderr, "bob's records are not seen from here"
    assert sentence in people("alice", MUSTER, "why", theirs).stdout


def test_a_job_of_somebody_elses_is_shown_as_theirs_and_not_cancelled(people: As, shared_directory: Path) -> None:
    output = shared_directory / "theirs.txt"
    theirs = batch(people, "bob", "echo spoken; sleep 600", f"--output={output}")
    mine = batch(people, "alice", "true", "--hold", "--output=/dev/null")

    status = checked(people("alice", MUSTER, "status", theirs)).stdout
    why = checked(people("alice", MUSTER, "why", theirs)).stdout
    refused = people("alice", MUSTER, "cancel", theirs, mine)

    assert status.startswith(f"job {theirs} (wrap) of bob is ")
    assert why.startswith(f"job {theirs} (wrap) of bob is ")
    assert refused.status == 3
    assert f"muster: error: job {theirs} is bob's, and Slurm does not let you cancel it\n\nhint: " in refused.stderr
    assert f"muster: job {mine} is cancelled" in refused.stderr, "what is one's own is cancelled first, and said"
    assert phase(people, "alice", theirs) == "running"
    assert phase(people, "alice", mine) == "ended badly"
    assert " of bob " not in checked(people("bob", MUSTER, "status", theirs)).stdout


def test_the_output_of_somebody_elses_job_is_read_where_it_is_open(people: As, shared_directory: Path) -> None:
    output = shared_directory / "theirs.txt"
    theirs = batch(people, "bob", "echo spoken", f"--output={output}")
    followed = people("alice", MUSTER, "logs", "-f", theirs)
    assert (followed.status, followed.stdout) == (0, "spoken\n"), followed.stderr


@pytest.mark.parametrize("closed", ["the file", "the directory"])
def test_output_that_is_closed_to_you_is_a_sentence(people: As, shared_directory: Path, closed: str) -> None:
    output = shared_directory / "theirs.txt" if closed == "the file" else "%j.txt"  # bob's home is his alone
    words = ["sh", "-c", f"umask 077; sbatch --parsable --output={output} --wrap 'echo secret; exit 3'"]
    theirs = checked(people("bob", *words)).stdout.strip()

    followed = people("alice", MUSTER, "logs", "-f", theirs)
    logs = people("alice", MUSTER, "logs", theirs)
    why = checked(people("alice", MUSTER, "why", theirs)).stdout

    for result in (followed, logs):
        assert (result.status, result.stdout) == (2, "")
        assert "cannot be read by you" in result.stderr
        assert "\n\nhint: only the job's owner reads its output" in result.stderr
    assert f"job {theirs} (wrap) of bob is FAILED" in why
    assert "what it wrote cannot be read by you: " in why
    assert "secret" not in why


def test_output_that_is_closed_is_said_while_the_job_runs(people: As) -> None:
    words = ["sh", "-c", "umask 077; sbatch --parsable --output=%j.txt --wrap 'echo secret; sleep 600'"]
    theirs = checked(people("bob", *words)).stdout.strip()
    followed = people("alice", "timeout", "120", MUSTER, "logs", "-f", theirs)
    assert (followed.status, followed.stdout) == (2, ""), followed.stderr
    assert phase(people, "alice", theirs) == "running"


def phase(people: As, user: str, job: str) -> Any:
    return json.loads(checked(people(user, MUSTER, "status", "--json", job)).stdout)[0]["phase"]
