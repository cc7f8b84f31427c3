"""Guards: who asks whether there is a Slurm gets a value, or an error; silence is never "no Slurm"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.errors import MachineLacks, SchedulerSilent
from muster.look.controller import SlurmHere, slurm_here
from muster.runner import ProgramResult, Runner
from muster.slurm.cluster import CONTROLLER


@pytest.fixture
def with_clients(tmp_path: Path) -> Mapping[str, str]:
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").chmod(0o755)
    return {"PATH": str(tmp_path)}


def _answering(status: int, stdout: str = "", stderr: str = "") -> Runner:
    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), status, stdout, stderr)

    return runner


def _refusing(error: Exception) -> Runner:
    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        raise error

    return runner


def test_no_client_on_path_is_no_slurm(tmp_path: Path) -> None:
    asked = _refusing(AssertionError("nobody is to be asked"))
    assert slurm_here({"PATH": str(tmp_path)}, asked) is SlurmHere.ABSENT


def test_a_client_without_a_configuration_is_not_set_up(with_clients: Mapping[str, str]) -> None:
    words = "scontrol: fatal: Could not establish a configuration source: failed to fetch config"
    assert slurm_here(with_clients, _answering(1, stderr=words)) is SlurmHere.NOT_SET_UP


@pytest.mark.parametrize("status", [0, 1])
def test_one_controller_that_is_up_answers(with_clients: Mapping[str, str], status: int) -> None:
    ping = "Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n"
    assert slurm_here(with_clients, _answering(status, ping)) is SlurmHere.ANSWERS


@pytest.mark.parametrize(
    "runner",
    [
        _answering(0, "Slurmctld(primary) at a is DOWN\n"),  # Slurm 17 ends well
        _answering(1, "Slurmctld(primary) at a is DOWN\n"),
        _answering(0),
        _answering(0, "Welcome to the cluster, which is UP\n"),
        _answering(-11),
        _answering(1, stderr="slurm_msg_sendto: Connection refused"),
        _refusing(SchedulerSilent("scontrol did not answer within 5 s")),
        _refusing(MachineLacks("scontrol", "the program 'scontrol' is not on PATH", hint="")),
    ],
)
def test_everything_else_is_an_error(with_clients: Mapping[str, str], runner: Runner) -> None:
    with pytest.raises(SchedulerSilent, match=r"the Slurm controller does not answer: .*scontrol") as error:
        slurm_here(with_clients, runner)
    assert "try again" in str(error.value.hint)


@pytest.mark.parametrize(
    ("stdout", "is_up"),
    [
        ("Slurmctld(primary/backup) at a/b are DOWN/UP", True),
        ("Slurmctld(primary/backup) at a/b are DOWN/DOWN", False),
        ("UP", None),
    ],
)
def test_the_answer_of_every_version_is_read(stdout: str, is_up: bool | None) -> None:
    assert CONTROLLER.read(stdout) is is_up
