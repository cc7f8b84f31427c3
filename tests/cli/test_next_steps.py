"""`muster` alone: what can be typed here, and what is offered works as it is."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from muster.cli import next_steps as module
from muster.cli.app import main
from muster.cli.command_line import read_command
from muster.cli.next_steps import next_steps, steps_page
from muster.cli.verbs import VERBS, command_of
from muster.errors import SchedulerSilent
from muster.facts import Facts
from muster.look import controller
from muster.look.controller import SlurmHere
from muster.look.probe import look
from muster.sites.heads import SearchPath, heads
from muster.sites.load import load

HERE = Facts(working_directory="/home/ada", home="/home/ada", user="ada")
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2"}


def test_in_an_allocation_one_runs_in_it() -> None:
    where, steps = next_steps(replace(HERE, environment=ALLOCATION), "train.py")
    assert where == "You are in the allocation of job 7, 2 nodes."
    assert "muster run -- python train.py" in [step.command for step in steps]


def test_where_slurm_answers_one_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "slurm_here", lambda _: SlurmHere.ANSWERS)
    where, steps = next_steps(HERE, "train.py")
    assert where == "A Slurm cluster answers here."
    assert "muster site probe" in [step.command for step in steps]


def test_where_slurm_is_silent_that_is_said_and_the_steps_are_a_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: object) -> SlurmHere:
        raise SchedulerSilent("the Slurm controller does not answer")

    monkeypatch.setattr(controller, "slurm_here", silent)
    where, steps = next_steps(HERE, "train.py")
    assert where == "The Slurm controller does not answer."
    assert "muster queues" in [step.command for step in steps]


def test_without_slurm_ranks_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "slurm_here", lambda _: SlurmHere.ABSENT)
    where, steps = next_steps(HERE, "mine.py")
    assert where.startswith("There is no Slurm here")
    assert "muster run --ntasks-per-node 2 -- python mine.py" in [step.command for step in steps]


@pytest.mark.parametrize("name", [head.name for head in heads(SearchPath.of(look())) if head.complete])
def test_what_is_offered_at_a_known_site_is_taken_by_its_rules(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for step in module._on_cluster(load(name), "train.py", is_known=True):
        verb, *words = shlex.split(step.command)[1:]
        if verb == "plan":
            assert main(["plan", "--site", name, *words]) == 0, capsys.readouterr().err
        else:
            command = command_of(next(each for each in VERBS if each.name == verb))
            if not command.verbs:
                read_command(command, words)


def test_a_script_of_the_folder_is_named(tmp_path: Path) -> None:
    assert module._script(tmp_path) == "train.py"
    (tmp_path / "fit.py").touch()
    assert module._script(tmp_path) == "fit.py"
    (tmp_path / "main.py").touch()
    assert module._script(tmp_path) == "main.py"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_page_fits_but_for_its_commands(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "slurm_here", lambda _: SlurmHere.ABSENT)
    too_long = [line for line in steps_page(width).splitlines() if len(line) > width]
    assert all(line.startswith("  muster ") for line in too_long)
