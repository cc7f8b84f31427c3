"""What a keeper makes of what it hears: the status of a run, salloc's news, and whom a signal goes to."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from muster.act import keep
from muster.act.keep import _Allocated, _Keeper

_TERM, _INT, _PIPE = signal.SIGTERM, signal.SIGINT, signal.SIGPIPE
_FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("child", "ended", "told", "error", "killed", "expected"),
    [
        (0, None, None, None, False, (0, None, None)),
        (7, None, None, None, False, (7, None, None)),
        (-9, None, None, None, False, (137, None, None)),
        (None, None, None, None, False, (0, None, None)),
        (7, 3, None, None, False, (3, None, None)),
        (0, 0, None, None, True, (137, None, None)),
        (0, 0, _TERM, None, False, (143, _TERM, None)),
        (0, 0, _INT, None, False, (130, _INT, None)),
        (0, 0, None, BrokenPipeError(), False, (141, None, None)),
        (0, 0, _PIPE, BrokenPipeError(), False, (141, None, None)),
        (0, 0, _TERM, BrokenPipeError(), False, (143, _TERM, None)),
        (0, 0, None, _FULL, False, (2, None, "No space left on device")),
        (0, 5, None, _FULL, False, (5, None, "No space left on device")),
        (0, 143, _PIPE, _FULL, False, (2, None, "No space left on device")),
        (0, 5, _TERM, _FULL, False, (143, _TERM, "No space left on device")),
    ],
)
def test_the_status_of_a_run(
    child: int | None,
    ended: int | None,
    told: int | None,
    error: OSError | None,
    killed: bool,
    expected: tuple[int, int | None, str | None],
) -> None:
    keeper = _Keeper(1.0, in_pieces=False)
    keeper.child_status, keeper.ended, keeper.told = child, ended, told
    keeper.out.target.error = error
    kept = keeper.kept(has_started=True, job="7", was_killed=killed)
    assert (kept.status, kept.signal, kept.unwritten) == expected
    assert (kept.started, kept.job, kept.killed) == (True, "7", killed)


def test_a_signal_is_passed_on_and_what_does_not_end_is_killed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    keeper = _Keeper(60.0, in_pieces=False)
    monkeypatch.setattr(keeper, "_send", sent.append)
    keeper.numbers = [signal.SIGUSR1]
    keeper._hear()
    assert (sent, keeper.told, keeper.kill_at) == ([], None, None)
    keeper.numbers = [_INT]
    keeper._hear()
    assert (sent, keeper.told, keeper.numbers) == ([_INT], _INT, [])
    keeper.group, keeper.numbers = 5, [_INT, _TERM]
    keeper._hear()
    assert (sent, keeper.told) == ([_INT, _TERM, _TERM], _INT)
    first = keeper.kill_at
    keeper._end_in_time()
    assert keeper.kill_at == first
    keeper.kill_at = 0.0
    keeper._hear()
    assert sent[3:] == [signal.SIGKILL]
    keeper.kill_at, keeper.child_status = 0.0, 0
    keeper._hear()
    assert len(sent) == 4


def test_output_that_nobody_takes_ends_the_script_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    keeper = _Keeper(60.0, in_pieces=False)
    monkeypatch.setattr(keeper, "_send", sent.append)
    keeper.out.target.error = BrokenPipeError()
    keeper._hear()
    keeper._hear()
    assert (sent, keeper.told) == ([_TERM], _PIPE)


def test_a_signal_goes_to_the_group_or_to_the_child_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(("kill", pid, number)))
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(("killpg", pid, number)))
    keeper = _Keeper(60.0, in_pieces=False)
    keeper.child = 44
    keeper._send(_TERM)
    keeper.child_status = 0
    keeper._send(_TERM)
    keeper.group = 55
    keeper._send(_TERM)
    assert sent == [("kill", 44, _TERM), ("killpg", 55, _TERM)]


class _Guard:
    def __init__(self) -> None:
        self.watched: list[str] = []

    def watch_job(self, job: str) -> None:
        self.watched.append(job)

    def finish(self) -> None:
        self.watched.append("finish")


def _allocated(*, steps_of_slurm: bool = True) -> tuple[_Allocated, _Guard, list[str]]:
    said: list[str] = []
    settings = keep.KeepSettings(60.0, said.append, lambda _: "", steps_of_slurm=steps_of_slurm, in_pieces=False)
    guard: Any = _Guard()
    return _Allocated(settings, {}, guard), guard, said


def test_what_salloc_says_is_its_job_its_end_or_a_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    keeper, guard, _ = _allocated()
    keeper._hear_salloc("salloc: Pending job allocation 57")
    keeper._hear_salloc("salloc: job 57 queued and waiting for resources")
    assert (keeper.job, guard.watched, keeper.refusal, keeper.revoked) == ("57", ["57"], [], False)
    keeper._hear_salloc("salloc: Job allocation 57 has been revoked.")
    assert (keeper.revoked, keeper.kill_at) == (False, None)
    keeper._hear_salloc("salloc: error: no")
    assert (keeper.refusal, capfd.readouterr().err) == (["salloc: error: no"], "")
    keeper.started = True
    keeper._hear_salloc("salloc: error: node failed")
    assert capfd.readouterr().err == "salloc: error: node failed\n"
    keeper.ended = 0
    keeper._hear_salloc("salloc: Job allocation 57 has been revoked.")
    was_revoked = keeper.revoked
    keeper.ended = None
    keeper._hear_salloc("salloc: Job allocation 57 has been revoked.")
    assert [was_revoked, keeper.revoked] == [False, True]
    assert keeper.kill_at is not None


@pytest.mark.parametrize(
    ("number", "started", "job", "of_slurm", "softly"),
    [
        (_TERM, True, "57", True, True),
        (signal.SIGKILL, True, "57", True, False),
        (_TERM, False, "57", True, False),
        (_TERM, True, None, True, False),
        (_TERM, True, "57", False, False),
    ],
)
def test_ranks_that_slurm_started_are_ended_by_slurm(
    monkeypatch: pytest.MonkeyPatch, number: int, started: bool, job: str | None, of_slurm: bool, softly: bool
) -> None:
    keeper, _, _ = _allocated(steps_of_slurm=of_slurm)
    keeper.started, keeper.job, keeper.child, keeper.script = started, job, 44, 45
    sent: list[tuple[int, int]] = []
    spawned: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal_number: sent.append((pid, signal_number)))
    monkeypatch.setattr(keep, "spawn", lambda words, *_, **__: spawned.append(words))
    keeper._send(number)
    assert (len(spawned), sent) == ((1, [(45, _TERM)]) if softly else (0, [(44, number)]))
    keeper.script = None
    sent.clear()
    keeper._send(number)
    assert sent == ([] if softly else [(44, number)])


def test_why_a_job_waits_is_said_once_and_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, _, said = _allocated()
    keeper._waits_since = keeper._ask_at = 0.0
    now = [1.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    keeper.look()
    assert said == []
    now[0] = keep._SILENT_S + 1
    keeper.look()
    keeper.look()
    assert said == [keep._SILENT]
    words = ["a"]
    monkeypatch.setattr(
        keeper, "_asked", keep.KeepSettings(60.0, said.append, lambda _: words[0], steps_of_slurm=True, in_pieces=False)
    )
    keeper.job = "57"
    for moment, word in ((100.0, "a"), (101.0, "b"), (200.0, "a"), (300.0, ""), (400.0, "b")):
        now[0], words[0] = moment, word
        keeper.look()
    assert said[1:] == ["a", "b"]
    keeper.started = True
    now[0], words[0] = 999.0, "c"
    keeper.look()
    assert said[1:] == ["a", "b"]
