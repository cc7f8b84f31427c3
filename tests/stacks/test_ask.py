"""Whether this host can show the call stack of a rank: where py-spy lies, and what the kernel allows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster_check.stacks import ask
from muster_check.stacks.ask import StackQuestion, find_spy, why_unseen_here
from muster_check.stacks.pulse import FORBIDDEN, NO_SPY


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder for programs; no py-spy lies beside Python, in the user's own folder, or beside Muster."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python/bin/python"))
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "user"))
    return tmp_path


def spy(folder: Path, mode: int = 0o755) -> str:
    """Make a py-spy in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "py-spy").touch(mode)
    return str(folder / "py-spy")


def test_py_spy_is_found_where_pip_puts_it(nowhere: Path) -> None:
    path = {"PATH": str(nowhere / "path")}
    assert find_spy(path) is None
    last = spy(nowhere / "path")
    assert find_spy(path) == last
    own = spy(nowhere / "user/bin")
    assert find_spy(path) == own
    spy(nowhere / "python/bin", 0o644)  # not a program
    assert find_spy(path) == own
    (nowhere / "python/bin/py-spy").chmod(0o755)
    assert find_spy(path) == str(nowhere / "python/bin/py-spy")


@pytest.mark.parametrize(
    ("ends_at", "answers", "rounds", "status", "waited"),
    [
        (3, {}, 1, 0, 3),
        (None, {2: 4}, 1, 0, 2),
        (None, {2: 3, 5: 1}, 1, 0, 5),
        (None, {2: 3}, 1, None, 12),  # ten seconds after the first of four
        (None, {20: 1}, 1, None, 40),  # as long again as it took
        (None, {25: 3}, 2, None, 40),  # of two rounds, ten seconds apart
        (None, {}, 1, None, 90),
        (None, {}, 2, None, 100),
        (None, {85: 1}, 1, None, 90),
    ],
)
def test_nodes_that_do_not_answer_are_waited_for_as_long_as_the_others_took(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, ends_at: int | None, answers: dict[int, int], rounds: int,
    status: int | None, waited: int,
) -> None:  # fmt: skip
    now = [100.0]
    file = nowhere / "answers"
    file.touch()

    def sleep(_: float) -> None:
        now[0] += 1
        with file.open("a") as written:
            written.write("@done 1\n" * answers.get(round(now[0] - 100), 0))

    monkeypatch.setattr(ask, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(ask, "_PATIENCE_S", 90.0)
    process: Any = SimpleNamespace(poll=lambda: 0 if ends_at is not None and now[0] >= 100 + ends_at else None)
    with file.open() as read:
        question = StackQuestion(None, rounds=rounds, gap_s=10, late_s=10)
        assert ask._wait(process, read.fileno(), 4, question) == status
    assert now[0] - 100 == waited


def test_a_step_is_ended_when_all_have_answered() -> None:
    argv = ["sh", "-c", "echo said; echo err >&2; echo '@done 1'; exec sleep 100"]
    assert ask._hear(argv, dict(os.environ), 1, StackQuestion(None)) == (0, "said\n@done 1\n", "err\n")


@pytest.mark.parametrize(
    ("scope", "powers", "why"),
    [
        ("0\n", "0000000000000000", ""),
        ("1\n", "0000000000000000", FORBIDDEN),
        ("1\n", "0000000000080000", ""),
        ("3\n", "0000000000040000", FORBIDDEN),
        (None, "0000000000000000", ""),
    ],
)
def test_the_kernel_of_this_host_may_forbid_to_look(nowhere: Path, scope: str | None, powers: str, why: str) -> None:
    proc = nowhere / "proc"
    (proc / "sys/kernel/yama").mkdir(parents=True)
    (proc / "self").mkdir()
    (proc / "self/status").write_text(f"CapPrm:\t{powers}\nCapEff:\t{powers}\nCapBnd:\tffff\n")
    if scope is not None:
        (proc / "sys/kernel/yama/ptrace_scope").write_text(scope)
    assert why_unseen_here({"PATH": ""}, proc) == NO_SPY
    spy(nowhere / "python/bin")
    assert why_unseen_here({"PATH": ""}, proc) == why
