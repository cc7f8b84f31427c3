"""What a gate does with its verdict, and numbers just at a bound: one row for each condition that decides something."""

from __future__ import annotations

import os
import socket
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.rank.finding import BROKEN, Finding
from muster_check.ranks import exchange, gate
from muster_check.ranks.lines import END
from muster_check.ranks.variables import patience_in_words
from muster_check.stacks import judge, watch
from muster_check.stacks.move import REST_BYTES_PER_S, Doing, Movement
from muster_check.stacks.read import RankStack


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "never"),
        (7020.0, "after 1.9 h"),
        (7019.9, "after 117.0 min"),
        (117.0, "after 1.9 min"),
        (116.9, "after 117 s"),
        (30.0, "after 30 s"),
    ],
)
def test_a_patience_is_said_in_the_largest_unit_that_it_has_two_of(seconds: float | None, words: str) -> None:
    assert patience_in_words(seconds) == words


@pytest.mark.parametrize(
    ("mode", "status", "becomes"), [("gate", 0, True), ("gate", 1, False), ("facts", 0, False), ("facts", 1, False)]
)
def test_a_rank_becomes_its_command_where_the_gate_is_open(
    monkeypatch: pytest.MonkeyPatch, mode: str, status: int, becomes: bool
) -> None:
    seen: list[Any] = []

    def note(answer: int, *words: Any) -> int:
        seen.append(words)
        return answer

    monkeypatch.setattr(gate, "_look", partial(note, status))
    monkeypatch.setattr(gate, "_become", partial(note, 9))
    assert gate.main([mode, '{"gpus": 4}', "python", "t.py"]) == (9 if becomes else status)
    assert seen == [(mode, {"gpus": 4}), *([(["python", "t.py"],)] if becomes else [])]


@pytest.mark.parametrize(
    ("mode", "status_of", "status", "said"), [("facts", BROKEN, 0, 0), ("gate", BROKEN, 1, 1), ("gate", "note", 0, 1)]
)
def test_a_verdict_is_told_or_handed_on(
    monkeypatch: pytest.MonkeyPatch, mode: str, status_of: str, status: int, said: int
) -> None:
    told: list[Any] = []
    written: list[Any] = []
    monkeypatch.setattr(gate, "_findings", lambda *_: [Finding("x", status_of, "text", "")])
    monkeypatch.setattr(gate, "_say", told.extend)
    monkeypatch.setattr(gate, "_write", written.extend)
    ranks: Any = [{"rank": 0}, {"rank": 1}]
    assert gate._conclude(mode, ranks, {}) == status
    assert len(told) == said
    assert (written[-1:] == [END]) is (mode == "facts")


@pytest.mark.parametrize(
    ("command", "is_agent", "status", "out"),
    [
        (["sh", "-c", "echo $RANK$MUSTER_CHECKED"], False, 0, "3\n"),
        (["sh", "-c", "echo $RANK$MUSTER_CHECKED"], True, 0, "\n"),
        (["no-such-program"], False, 127, ""),
        (["/"], False, 126, ""),
    ],
)
def test_the_command_has_the_place_of_the_gate(
    monkeypatch: pytest.MonkeyPatch, command: list[str], is_agent: bool, status: int, out: str
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("MUSTER_CHECKED", "1") if is_agent else monkeypatch.delenv("MUSTER_CHECKED", raising=False)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        os._exit(gate._become(command))
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
    assert text == out


@pytest.mark.parametrize(("length", "ok"), [(2, True), (20, False), (21, False)])
def test_a_message_is_no_longer_than_any(monkeypatch: pytest.MonkeyPatch, length: int, ok: bool) -> None:
    monkeypatch.setattr(exchange, "_LARGEST", 20)
    text = b"{}" if length == 2 else b"[" + b" " * (length - 2) + b"]"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(exchange._LENGTH.pack(length) + text)
        theirs.close()
        if ok:
            assert exchange._receive(ours) == {}
        else:
            with pytest.raises(ValueError, match="not a message of Muster"):
                exchange._receive(ours)
        left = ours.recv(100)
        assert (left == b"") is (length <= 20)
    assert struct.calcsize("!d") == 8


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((0.0,), "uses 50% of a core"),
        ((float(REST_BYTES_PER_S),), "uses 50% of a core"),
        ((3000.0,), "uses 50% of a core, 3 kB/s read or written"),
        ((2000.0, 1000.0), "use 50% of a core each, 3 kB/s read or written"),
    ],
)
def test_what_busy_ranks_use_is_told(rates: tuple[float, ...], words: str) -> None:
    stack = RankStack(0, 2, "n1", 7, "R")
    assert judge._what([Movement(stack, Doing.MOVES, 0.5, rate) for rate in rates]) == words


@pytest.mark.parametrize(
    ("hang", "reason", "status"), [("all wait", True, 3), ("all wait", False, 0), ("", True, 0), ("", False, 0)]
)
def test_a_hang_is_written_for_a_job_that_may_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang: str, reason: bool, status: int
) -> None:
    runs = iter([True, True, False])
    made: list[dict[str, Any]] = []

    class _Watch:
        pause_s = 0.0

        def __init__(self, *_: Any, **words: Any) -> None:
            made.append(words)

        def check(self) -> str:
            return hang

    monkeypatch.setattr(watch, "QuietWatch", _Watch)
    monkeypatch.setattr(watch, "_runs", lambda _: next(runs))
    file = tmp_path / "reason"
    words = ["7", "8", "n[1-2]", str(tmp_path), "60", *([str(file)] if reason else [])]
    assert watch.main(words) == status
    assert (file.read_text() == "all wait\n") if status else not file.exists()
    assert made == [{"ends": reason}]
