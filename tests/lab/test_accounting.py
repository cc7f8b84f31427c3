"""Guards accounts, QOS and limits: real, enforced on ordinary users, and recorded where sacct finds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import Lab, Person, lab_up

from .processes import becomes_true

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def strict_lab(accounting_lab: Lab) -> Lab:
    """With an account that only bob may charge and a QOS of ten minutes, made as a cluster's operator would."""
    for words in (
        ["add", "account", "closed", "Cluster=accounting"],
        ["add", "user", "bob", "Account=closed"],
        ["add", "qos", "short", "MaxWall=10", "MaxJobsPerUser=1"],
        ["modify", "account", "lab", "set", "QOS+=short"],
        ["modify", "user", "alice", "set", "QOS+=short"],
    ):
        checked(accounting_lab.exec(["sacctmgr", "-i", *words]))
    return accounting_lab


def test_a_job_is_found_in_sacct_with_its_account(strict_lab: Lab, shared_directory: Path) -> None:
    words = ["sbatch", "--wait", "--parsable", "--wrap=exit 3"]
    job = strict_lab.exec(words, user="alice", cwd=shared_directory).stdout.strip()
    ask = ["sacct", "-X", "-n", "-P", "-j", job, "--format=User,Account,State,ExitCode"]
    assert becomes_true(lambda: strict_lab.exec(ask).stdout == "alice|lab|FAILED|3:0\n", timeout_s=60)


def test_an_account_that_is_not_yours_is_refused(strict_lab: Lab) -> None:
    answer = strict_lab.exec(["srun", "-A", "closed", "true"], user="alice")
    assert answer.status != 0
    assert "Invalid account or account/partition combination specified" in answer.stderr
    assert strict_lab.exec(["srun", "-A", "closed", "true"], user="bob").status == 0


def test_a_qos_that_does_not_exist_is_refused(strict_lab: Lab) -> None:
    answer = strict_lab.exec(["srun", "-q", "none-such", "true"], user="alice")
    assert "Invalid qos specification" in answer.stderr


def test_a_job_above_the_limit_of_its_qos_waits_for_a_reason(strict_lab: Lab, shared_directory: Path) -> None:
    words = ["sbatch", "--parsable", "-q", "short", "-t", "30", "--wrap=true"]
    job = checked(strict_lab.exec(words, user="alice", cwd=shared_directory)).stdout.strip()
    ask = ["squeue", "-h", "-j", job, "-o", "%r"]
    assert becomes_true(lambda: strict_lab.exec(ask).stdout.strip() == "QOSMaxWallDurationPerJobLimit")
    checked(strict_lab.exec(["scancel", job]))


def test_root_of_the_lab_charges_the_first_account(strict_lab: Lab) -> None:
    said = checked(strict_lab.exec(["srun", "sh", "-c", "echo $SLURM_JOB_ACCOUNT"])).stdout
    assert said == "lab\n"


@pytest.fixture(scope="module")
def ordinary_accounting_lab(ordinary_person: Person, slurm_version: str) -> Iterator[Lab]:
    with lab_up(ordinary_person, "ordinary-accounting", "-N", "1", "--accounting", "--slurm", slurm_version) as made:
        yield made


def test_limits_hold_in_an_ordinary_users_lab_too(ordinary_accounting_lab: Lab) -> None:
    answer = ordinary_accounting_lab.exec(["srun", "-A", "root", "true"], user="alice")
    assert "Invalid account or account/partition combination specified" in answer.stderr
    said = checked(ordinary_accounting_lab.exec(["srun", "sh", "-c", "id -un; echo $SLURM_JOB_ACCOUNT"], user="alice"))
    assert said.stdout == "alice\nlab\n"
