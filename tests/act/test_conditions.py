"""What is left, read or asked around a job: one row for each condition that decides something."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from act.test_clean import _run, _told, asked
from muster import runner
from muster.act.clean import CleanRules, find_leftovers
from muster.act.keep import _Lines
from muster.act.launch import _append_errors
from muster.act.record import Run, register
from muster.act.supervise import _Running
from muster.follow.cases import _silent
from muster.follow.scheduler import Answer

__all__ = ["asked"]


@pytest.mark.parametrize(
    ("place", "listens", "is_down"),
    [
        ("socket", True, False),
        ("socket", False, True),
        ("munge/socket", None, True),
        ("no/such/munge/socket", None, False),
        ("file", None, True),
        ("loop/socket", None, False),
    ],
)
def test_munge_is_down_where_nobody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, listens: bool | None, is_down: bool
) -> None:
    (tmp_path / "munge").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "_MUNGE", place)
    with socket.socket(socket.AF_UNIX) as server:
        if listens is not None:
            server.bind(place)
        if listens:
            server.listen()
        assert runner.munge_is_down() is is_down
        assert (runner.MUNGE_IS_DOWN in str(_silent("7", None, Answer((), silent=True)))) is is_down


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo", b" three\n"], ["one", "two three"]),
        ([b"one\ntwo"], ["one", "two"]),
        ([b"one\n"], ["one"]),
        ([b"o", b"n", b"e"], ["one"]),
        ([], []),
    ],
)
def test_what_a_shell_reports_is_heard_line_by_line(pieces: list[bytes], lines: list[str]) -> None:
    heard: list[str] = []
    reader = _Lines(heard.append)
    for piece in pieces:
        os.write(reader.writer, piece)
        reader.read()
        assert reader.open
    os.close(reader.writer)
    reader.read()
    assert heard == lines
    assert not reader.open


def test_two_programs_append_to_one_file_of_errors(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with (tmp_path / "errors").open("w") as file:
            os.dup2(file.fileno(), 2)
        _append_errors()
        with (tmp_path / "errors").open("a") as file:
            file.write("of another\n")
        os.write(2, b"ours\n")
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "errors").read_text() == "of another\nours\n"


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, {"run 1": None}),
        ({"living": frozenset({"1"})}, {"run 1": "job 1 waits or runs"}),
        ({"older_s": 50 * 24 * 3600.0}, {}),
    ],
)
def test_a_run_directory_is_named_with_the_reason_why_it_stays(
    asked: CleanRules, change: dict[str, Any], kept: dict[str, str | None]
) -> None:
    _run(asked, "1")
    assert _told(replace(asked, **change)) == kept


@pytest.mark.parametrize(
    ("age_s", "living", "named"), [(7200.0, False, True), (1.0, False, False), (7200.0, True, False)]
)
def test_a_secret_is_left_if_no_job_reads_it_and_it_was_not_just_made(
    asked: CleanRules, age_s: float, living: bool, named: bool
) -> None:
    run = _run(asked, "1", days=0.1, files=("passed",))
    os.utime(run.directory / "passed", (asked.now - age_s,) * 2)
    question = replace(asked, living=frozenset({"1"} if living else ()))
    assert [each.kind for each in find_leftovers(question)] == ["secret"] * named


def test_a_link_in_a_run_directory_counts_for_nothing(asked: CleanRules, tmp_path: Path) -> None:
    run = _run(asked, "1")
    (tmp_path / "data.bin").write_bytes(b"x" * 1000)
    (run.directory / "link.bin").symlink_to(tmp_path / "data.bin")
    os.utime(run.directory, (asked.now - 40 * 24 * 3600,) * 2)
    (left,) = find_leftovers(asked)
    assert (left.kept, left.bytes) == (None, 16)


@pytest.mark.parametrize(
    ("living", "parent", "kept"),
    [
        (False, True, None),
        (False, False, "is not to be seen from here"),
        (True, False, "job 1 waits or runs"),
        (True, True, "job 1 waits or runs"),
    ],
)
def test_an_entry_without_its_directory_stays_while_its_file_system_may_be_away(
    asked: CleanRules, tmp_path: Path, living: bool, parent: bool, kept: str | None
) -> None:
    place = tmp_path / ("runs/1" if parent else "away/runs/1")
    register(asked.state, Run("1", place, "train", "here", 0))
    question = replace(asked, living=frozenset({"1"} if living else ()))
    (left,) = find_leftovers(question)
    assert (left.kept or "").endswith(kept or "")
    assert (left.kept is None) is (kept is None)
    assert left.age_s == 0


@pytest.mark.parametrize(
    ("own_group", "status", "sent"),
    [(True, None, ["group 15"]), (True, 0, ["group 15"]), (False, None, ["process 15"]), (False, 0, [])],
)
def test_a_process_that_was_awaited_is_not_signalled_by_its_number(
    monkeypatch: pytest.MonkeyPatch, own_group: bool, status: int | None, sent: list[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: seen.append(f"process {number}"))
    monkeypatch.setattr(os, "killpg", lambda pid, number: seen.append(f"group {number}"))
    _Running.send(SimpleNamespace(own_group=own_group, status=status, pid=7), 15)  # type: ignore[arg-type]
    assert seen == sent
