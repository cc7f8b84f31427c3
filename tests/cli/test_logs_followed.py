"""`muster logs -f` prints what is new until the job is over, says why it waits, and ends with the status of the job."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import time
from pathlib import Path

import pytest

from api.stubs import Stub, row
from muster.cli import logs
from muster.cli.app import main
from muster.follow import scheduler
from muster.follow.watch import JobOutput

_ME = pwd.getpwuid(os.geteuid()).pw_name
_LOOK_S = 0.0123  # no other sleep is as long
_TEXT = "0: a\n1: b\n0: c\n"


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub.at(tmp_path / "slurm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{made.folder}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(logs, "_LOOK_S", _LOOK_S)
    monkeypatch.setattr(scheduler, "pauses", lambda **_: itertools.repeat(0.0))
    (tmp_path / "out").write_text(_TEXT)
    return made


def _row(tmp_path: Path, state: str, **more: str) -> str:
    started = {} if state == "PENDING" else {"batch": "1", "started": "1790000000"}
    return row(state=state, user=_ME, stdout=f"{tmp_path}/out", **{**started, **more})


@pytest.mark.parametrize(
    ("end", "exit_code", "status"),
    [("COMPLETED", "0:0", 0), ("FAILED", "7:0", 7), ("FAILED", "0:9", 137), ("NODE_FAIL", "0:0", 1)],
)
def test_the_status_is_that_of_the_job(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], end: str, exit_code: str, status: int
) -> None:
    stub.say(*[_row(tmp_path, "RUNNING")] * 3, _row(tmp_path, end, exit=exit_code, ended="1790000900"))

    assert main(["logs", "-f", "41"]) == status
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == (_TEXT, "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--rank", "0"], "a\nc\n"),
        (["--rank", "1"], "b\n"),
        (["--tail", "1"], "0: c\n"),
        (["--tail", "1", "--rank", "1"], "b\n"),
    ],
)
def test_the_lines_of_one_rank_and_the_last_ones(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    stub.say(_row(tmp_path, "RUNNING"), _row(tmp_path, "RUNNING"), _row(tmp_path, "COMPLETED", ended="1790000900"))

    assert main(["logs", "-f", "41", *words]) == 0
    assert capfd.readouterr().out == text


def test_a_rank_that_the_job_has_not_is_refused_before_anything_is_awaited(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    output = JobOutput(tmp_path / "logs", ranks=2)
    monkeypatch.setattr("muster.follow.find_output.find_output", lambda *_: output)
    stub.say(_row(tmp_path, "COMPLETED", ended="1790000900"))

    assert [main(["logs", "-f", "41", *words]) for words in ([], ["--rank", "1"], ["--rank", "2"])][2] == 2
    assert "2" in capfd.readouterr().err


def test_each_line_is_an_object_where_json_is_asked_for(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stub.say(_row(tmp_path, "RUNNING"), _row(tmp_path, "COMPLETED", ended="1790000900"))

    assert main(["logs", "-f", "41", "--json"]) == 0
    objects = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert objects == [{"rank": 0, "text": "a"}, {"rank": 1, "text": "b"}, {"rank": 0, "text": "c"}]


def test_why_a_job_waits_is_said_once_and_when_it_changes(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("")
    first, second = (_row(tmp_path, "PENDING", reason=reason) for reason in ("Priority", "Resources"))
    stub.say(first, first, first, second, second, _row(tmp_path, "RUNNING"), _row(tmp_path, "COMPLETED", ended="1"))

    assert main(["logs", "-f", "41"]) == 0
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0] != said[1]


def test_a_controller_that_is_silent_for_a_while_is_asked_again(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.say(*[_row(tmp_path, "RUNNING")] * 2, _row(tmp_path, "COMPLETED", ended="1790000900"))
    looks: list[float] = []
    own = time.sleep

    def sleep(seconds: float) -> None:
        looks.extend([seconds] * (seconds == _LOOK_S))
        if seconds == _LOOK_S and len(looks) in {1, 3}:
            stub.fall_silent(silent=len(looks) == 1)
        own(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    assert main(["logs", "-f", "41"]) == 0
    assert capfd.readouterr().out == _TEXT
    assert len(looks) >= 3


def test_a_job_that_slurm_forgets_meanwhile_has_no_status(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.say(_row(tmp_path, "RUNNING"))
    own = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: stub.forget() if seconds == _LOOK_S else own(seconds))

    assert main(["logs", "-f", "41"]) == 3
    printed = capfd.readouterr()
    assert printed.out == _TEXT
    assert "the exit status of job 41 is not known" in printed.err
