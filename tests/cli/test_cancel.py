"""`muster cancel` ends what lives, says what is over, asks for each job once, and names the owner of another's."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from api.stubs import Stub, row
from muster.cli.app import main

_ME = pwd.getpwuid(os.geteuid()).pw_name


def _row(job: str, state: str, user: str = _ME) -> str:
    return row(id=job, shown_id=job, state=state, user=user)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub.at(tmp_path / "slurm")
    made.say(
        _row("41", "RUNNING") + _row("42", "COMPLETED") + _row("43", "PENDING") + _row("44", "RUNNING", "bob")
        + _row("45", "FAILED", "bob")
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{made.folder}/bin:{os.environ['PATH']}")
    return made


@pytest.mark.parametrize(
    ("ids", "ended", "said"),
    [
        (["41"], ["41"], ["job 41 is cancelled"]),
        (["42"], [], ["job 42 is over already"]),
        (["43", "41"], ["43 41"], ["job 43 is cancelled", "job 41 is cancelled"]),
        (["41", "42"], ["41"], ["job 42 is over already", "job 41 is cancelled"]),
        (["44"], ["44"], ["job 44 of bob is cancelled"]),
        (["44", "41"], ["41", "44"], ["job 41 is cancelled", "job 44 of bob is cancelled"]),
        (["45"], [], ["job 45 is over already"]),
    ],
)
def test_what_lives_is_ended_and_what_is_over_is_said(
    stub: Stub, capsys: pytest.CaptureFixture[str], ids: list[str], ended: list[str], said: list[str]
) -> None:
    assert main(["cancel", *ids]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()) == ("", [f"muster: {line}" for line in said])
    asked = stub.asked("scancel")
    assert [" ".join(word for word in words.split() if word.isdigit()) for words in asked] == ended


def test_the_answer_in_json_says_the_same_and_no_sentence(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "41", "42", "44", "--json"]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == ({"cancelled": ["41", "44"], "over": ["42"], "refused": []}, "")
    assert len(stub.asked("scancel")) == 2


def test_an_id_that_is_no_job_is_told_and_the_others_are_ended(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "41", "99", "43"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "muster: job 41 is cancelled\nmuster: job 43 is cancelled\nmuster: error: Slurm knows no job 99"
    )
    assert stub.asked("scancel")[0].split()[-2:] == ["41", "43"]
    assert main(["cancel", "42", "99", "98", "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"cancelled": [], "over": ["42"], "refused": ["99", "98"]}
    assert "no job 98" in printed.err


@pytest.mark.parametrize(
    ("ids", "sentences"),
    [
        (["43"], ["job 43 does not run: there is nothing to save", "job 43 is cancelled"]),
        (["42"], ["job 42 is over already"]),
        (["44"], ["job 44 of bob is cancelled"]),
    ],
)
def test_only_ranks_that_run_can_save(
    stub: Stub, capsys: pytest.CaptureFixture[str], ids: list[str], sentences: list[str]
) -> None:
    assert stub
    assert main(["cancel", "--save", *ids]) == 0
    assert capsys.readouterr().err.splitlines() == [f"muster: {line}" for line in sentences]


def test_a_job_that_cannot_save_is_not_ended(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "--save", "41"]) == 2
    assert "job 41 was not submitted with --save-before" in capsys.readouterr().err
    assert stub.asked("scancel") == []
