"""What a supervisor says and writes of an end, and what it takes from an attempt: in this process, by tables."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.life import machine
from muster.life.machine import FirstCause, LifePhase
from muster.life.rules import Rules
from muster.life.supervise import Supervisor


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a supervisor of job 7 on the nodes a and b, which notes what it says."""

    def make(*words: str, running: Any = None, **state: Any) -> tuple[Supervisor, list[str]]:
        environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a,b", "SLURMD_NODENAME": "a"}
        (tmp_path / "run").mkdir(exist_ok=True)
        rules = Rules(["file=job.sh", f"run={tmp_path}/run", "logs=logs", *words], environment)
        supervisor = Supervisor(rules, environment)
        supervisor.state = supervisor.state._replace(**state)
        supervisor.running = running
        said: list[str] = []
        monkeypatch.setattr(supervisor, "say", said.append)
        return supervisor, said

    return make


def _running(**words: Any) -> Any:
    facts = {"attempt": 1, "has_ended": False, "hosts": ("a", "b"), "status": 9, "heard": lambda *words: [words]}
    facts["cause_text"] = lambda cause: f"rank {cause.rank} failed"
    facts["failing"] = lambda cause: cause
    return SimpleNamespace(**{**facts, **words})


@pytest.mark.parametrize(
    ("running", "text", "told"),
    [
        (_running(), "1 ended 0 3", [("ended", "0 3")]),
        (_running(), "1 ended", [("ended", "")]),
        (_running(), "2 ended 0", []),
        (_running(attempt=2), "1 ended 0", []),
        (_running(has_ended=True), "1 ended 0", []),
        (None, "1 ended 0", []),
    ],
)
def test_only_the_running_attempt_is_heard(
    made: Any, monkeypatch: pytest.MonkeyPatch, running: Any, text: str, told: list[tuple[str, str]]
) -> None:
    supervisor, _ = made(running=running)
    events: list[Any] = []
    monkeypatch.setattr(supervisor, "tell", events.append)
    supervisor.take(text)

    assert events == told


@pytest.mark.parametrize(
    ("running", "phase", "is_told"),
    [
        (None, LifePhase.RUNS, False),
        (_running(), LifePhase.RUNS, True),
        (_running(), LifePhase.ENDS_STEP, True),
        (_running(), LifePhase.BEGINS, False),
        (_running(has_ended=True), LifePhase.RUNS, False),
    ],
)
def test_ranks_are_told_to_save_where_there_are_some_and_later_where_there_are_none(
    made: Any, monkeypatch: pytest.MonkeyPatch, running: Any, phase: str, is_told: bool
) -> None:
    supervisor, _ = made(running=running, phase=phase, attempt=3)
    told: list[Any] = []
    was_told = threading.Event()

    def tell_ranks(hosts: Any, attempt: int, runs: Any) -> str:
        told.append((hosts, attempt, runs()))
        was_told.set()
        return "asked"

    events: list[Any] = []
    monkeypatch.setattr(supervisor.saves, "tell_ranks", tell_ranks)
    monkeypatch.setattr(supervisor, "post", lambda act: act())
    monkeypatch.setattr(supervisor, "tell", events.append)
    supervisor.saves.is_asked = is_told
    before = threading.enumerate()
    supervisor._save()
    for thread in set(threading.enumerate()) - set(before):
        thread.join(30)

    assert supervisor.saves.is_asked is not is_told
    assert told == ([(("a", "b"), 3, True)] if is_told else [])
    assert events == ([machine.RanksSave("asked")] if is_told else [])


_RANK = FirstCause("rank", 3, "b", 1, "ValueError")
_NONE = "muster: error: no ranks start, the job %s, why"
_GONE = "hint: where /c is gone for good, make it again: the job then begins from nothing"
_LONGER = "hint: a longer time limit, or a checkpoint more often, before /c is written within one link"
_SAME = "the same ranks start again (restart 1 of 2)"
_LOST = "b is lost; the same ranks start again on a,c (restart 2 of 2)"


@pytest.mark.parametrize(
    ("running", "state", "decision", "cause", "said", "row"),
    [
        (_running(), {"hosts": ("a", "b"), "restarts": 1}, "again", _RANK,
         "muster: attempt 1 ended: rank 3 failed; the same ranks start again (restart 1 of 2)",
         ["9", "3", "b", "again", "rank 3 failed", _SAME, "rank", "ValueError"]),
        (_running(), {"hosts": ("a", "c"), "restarts": 2}, "again", FirstCause("node", None, "b"),
         f"muster: attempt 1 ended: b failed; {_LOST}",
         ["9", "", "b", "again", "b failed", _LOST, "node", ""]),
        (_running(), {"hosts": ("a", "b")}, "end", _RANK,
         "muster: attempt 1 ended: rank 3 failed; not started again: why",
         ["9", "3", "b", "end", "rank 3 failed", "not started again: why", "rank", "ValueError"]),
        (_running(), {"hosts": ("a", "b")}, "end", FirstCause("hang", 3, "b", 0, "silent"),
         "muster: attempt 1 ended: rank 3 failed; not started again: why",
         ["9", "", "", "end", "rank 3 failed", "not started again: why", "", ""]),
        (_running(), {"hosts": ("a", "b")}, "end", FirstCause("unsaid", None, "b", 0, "x"),
         "muster: attempt 1 ended: rank None failed; not started again: why",
         ["9", "", "b", "end", "rank None failed", "not started again: why", "unsaid", ""]),
        (_running(), {"hosts": ("a", "b")}, "end", None,
         "muster: attempt 1 ended: rank None failed; not started again: why",
         ["9", "", "", "end", "rank None failed", "not started again: why", "", ""]),
        (_running(), {"hosts": ("a", "b")}, "next", None,
         "muster: attempt 1 ended: rank None failed; why; the job goes on in its next link",
         ["9", "", "", "next", "rank None failed", "why; the job goes on in its next link", "", ""]),
        (_running(), {"hosts": ("a", "b"), "saved": "limit"}, "end", None,
         "muster: attempt 1 ended: rank None failed; not started again: saved",
         ["9", "", "", "end", "rank None failed", "not started again: saved", "", ""]),
        (_running(), {"hosts": ("a", "b"), "saved": "limit", "told": 143}, "end", None,
         "muster: attempt 1 ended: rank None failed; not started again: why",
         ["9", "", "", "end", "rank None failed", "not started again: why", "", ""]),
        (_running(), {"hosts": ("a", "b"), "saved": "asked"}, "end", None,
         "muster: attempt 1 ended: rank None failed; not started again: why",
         ["9", "", "", "end", "rank None failed", "not started again: why", "", ""]),
        (_running(), {"hosts": ("a", "b"), "status": 5}, "saved", _RANK, "",
         ["5", "", "", "saved", "saved", "they ended well", "", ""]),
        (_running(), {"hosts": ("a", "b"), "status": 5}, "done", None, "", ["5", "", "", "done", "", "", "", ""]),
        (None, {"hosts": ("a", "b"), "status": 5}, "end", None,
         f"{_NONE % 'does not go on'}: nothing was started\n\nhint: submit it again",
         ["5", "", "", "end", "nothing was started", "not started: why", "", ""]),
        (None, {"hosts": (), "checkpoint": None}, "next", None,
         f"{_NONE % 'goes on in its next link'}: nothing was started\n\n{_GONE}",
         ["0", "", "", "next", "nothing was started", "why; the job goes on in its next link", "", ""]),
        (None, {"hosts": (), "checkpoint": None, "told": 143}, "end", None,
         f"{_NONE % 'does not go on'}: nothing was started\n\nhint: submit it again",
         ["0", "", "", "end", "nothing was started", "not started: why", "", ""]),
        (None, {"hosts": ()}, "end", FirstCause("idle"),
         f"{_NONE % 'does not go on'}: link 3 and link 4 saved nothing\n\n{_LONGER}",
         ["0", "", "", "end", "link 3 and link 4 saved nothing", "not started: why", "", ""]),
    ],
)  # fmt: skip
def test_an_end_is_said_and_written_down(
    made: Any, running: Any, state: dict[str, Any], decision: str, cause: FirstCause | None, said: str, row: list[str]
) -> None:
    supervisor, sentences = made("restarts=2", "links=9", "link=5", "checkpoint=/c", running=running, **state)
    supervisor.saves.saved_words = "saved"
    supervisor._do_note_end(machine.NoteEnd(1, decision, cause, "why"))

    assert sentences == ([said] if said else [])
    (written,) = supervisor.files.rows("ends")
    assert [written[0], *written[3:]] == ["1", *row]
    assert len(list(supervisor.files.rows("attempts"))) == (running is None)


@pytest.mark.parametrize(
    ("rule", "saved", "is_same", "preempted", "told", "events"),
    [
        (True, "", True, True, 0, 2),
        (True, "", True, False, 143, 2),
        (True, "", True, False, 0, 1),
        (True, "limit", True, True, 0, 1),
        (False, "", True, True, 0, 1),
        (True, "", False, True, 0, 0),
    ],
)
def test_ranks_that_slurm_has_told_to_end_have_saved(
    made: Any, monkeypatch: pytest.MonkeyPatch, rule: bool, saved: str, is_same: bool, preempted: bool, told: int,
    events: int,
) -> None:  # fmt: skip
    running = _running(events_of_end=lambda _: [machine.StepEnded(0)])
    supervisor, _ = made(*(["save=60"] if rule else []), running=running if is_same else None, saved=saved, told=told)
    seen: list[Any] = []
    monkeypatch.setattr(supervisor, "tell", seen.append)
    monkeypatch.setattr(supervisor, "read", lambda: None)
    supervisor._attempt_ended(running, SimpleNamespace(is_preempted=preempted))

    assert running.has_ended is is_same
    assert len(seen) == events
    assert seen[-1:] == ([machine.StepEnded(0)] if is_same else [])


@pytest.mark.parametrize(
    ("by", "first", "is_ended"),
    [
        ("TERM", None, False),
        ("TERM", _RANK, False),
        ("TERM", FirstCause("memory", 3), False),
        ("TERM", FirstCause(""), False),
        ("TERM", FirstCause("", words="x"), True),
        ("TERM", FirstCause("hang", words="x"), True),
        ("TERM", FirstCause("node"), True),
        ("starter", _RANK, True),
    ],
)
def test_a_step_whose_rank_failed_is_ended_by_its_script_first(
    made: Any, by: str, first: FirstCause | None, is_ended: bool
) -> None:
    ended: list[str] = []
    was_ended = threading.Event()

    def end(way: str) -> None:
        ended.append(way)
        was_ended.set()

    supervisor, _ = made(running=_running(end=end), first=first)
    supervisor._do_end_step(machine.EndStep(by))
    if is_ended:
        was_ended.wait(30)

    assert ended == ([by] if is_ended else [])
