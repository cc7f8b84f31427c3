"""What a supervisor says and writes of an end, and what it takes from an attempt: in this process, by tables."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.life import asking, deputy, machine, supervise, told
from muster.life.attempt import RunningAttempt
from muster.life.deputy import keep_deputy
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
_BLIND = "b does not see the folder of the run; the same ranks start again on a,c (restart 2 of 2)"
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
        (_running(), {"hosts": ("a", "c"), "restarts": 2}, "again", _RANK,
         f"muster: attempt 1 ended: rank 3 failed; {_LOST}",
         ["9", "3", "b", "again", "rank 3 failed", _LOST, "rank", "ValueError"]),
        (_running(), {"hosts": ("a", "c"), "restarts": 2, "blind": ("b",)}, "again", FirstCause(""),
         f"muster: attempt 1 ended: rank None failed; {_BLIND}",
         ["9", "", "", "again", "rank None failed", _BLIND, "", ""]),
        (_running(), {"hosts": ("a", "c"), "restarts": 2}, "again", FirstCause("", None, "a", 7),
         f"muster: attempt 1 ended: rank None failed; {_LOST}",
         ["9", "", "", "again", "rank None failed", _LOST, "", ""]),
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
    ("cause", "hosts", "text"),
    [
        (FirstCause("rank", 1, "b", 143), ("a", "b"), "a node of the job failed"),
        (FirstCause("node", host="b"), ("a",), "b failed"),
    ],
)
def test_slurm_s_own_reason_of_an_end_is_told_where_the_node_is_not_known(
    made: Any, monkeypatch: pytest.MonkeyPatch, cause: FirstCause, hosts: tuple[str, ...], text: str
) -> None:
    supervisor, said = made("links=9", "link=1", running=_running(), hosts=hosts)
    monkeypatch.setattr(supervisor.chain, "reason_of_slurm", lambda *_: "a node of the job failed")
    supervisor._do_note_end(machine.NoteEnd(1, "next", cause, "why"))

    assert [sentence.partition(";")[0] for sentence in said] == [f"muster: attempt 1 ended: {text}"]


@pytest.mark.parametrize("preempted", [True, False])
def test_what_slurm_says_of_a_preemption_reaches_the_decision(
    made: Any, monkeypatch: pytest.MonkeyPatch, preempted: bool
) -> None:
    supervisor, _ = made()
    monkeypatch.setattr(asking, "ask_job", lambda _: asking.JobWords("RUNNING", "a,b", 0.0, preempted))

    assert supervisor._ask_slurm() == machine.SlurmSays("RUNNING", ("a", "b"), is_preempted=preempted)


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


@pytest.mark.parametrize(
    ("words", "attempts", "ranks", "nodes", "grace"),
    [
        ((), "", 2, 2, 10),
        (("of=agents",), "", 2, 2, 11),
        (("tasks=4",), "", 8, 2, 10),
        (("tasks=4", "of=agents"), "", 2, 2, 11),
        (("nodes=3", "spares=1"), "", 2, 2, 10),
        (("nodes=3", "spares=1"), "1\t100\ta\t\t7\n", 1, 1, 10),
        (("nodes=3", "spares=1"), "1\t100\ta,b\t\t7\n2\t100\ta\t\t7\n", 1, 1, 10),
        (("nodes=3", "spares=1"), "1\t100\t\t\t7\n", 2, 2, 10),
        ((), "1\t100\ta\t\t7\n", 2, 2, 10),
    ],
)
def test_the_ranks_keep_their_nodes_when_a_job_runs_again(
    made: Any, tmp_path: Path, words: tuple[str, ...], attempts: str, ranks: int, nodes: int, grace: int
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/attempts").write_text(attempts)
    terms = made("nodes=2", *words)[0].terms

    assert (terms.ranks, terms.nodes, terms.grace_s) == (ranks, nodes, grace)


@pytest.mark.parametrize(
    ("words", "over", "searched", "attempts", "event"),
    [
        ((), "", False, "", (1, "", False, "", "", 0)),
        ((), "it is over", True, "", (1, "", False, "", "", 0)),
        (("links=3",), "", False, "", (1, "", False, "before", "", 0)),
        (("links=3",), "", True, "", (1, "", False, "before", "", 4)),
        (("links=3",), "it is over", True, "", (1, "it is over", False, "", "", 4)),
        (("checkpoint=/c",), "", True, "", (1, "", False, "", "/c/9", 0)),
        ((), "", False, "3\t100\ta,b\t\t7\n", (4, "", True, "", "", 0)),
        ((), "", False, "3\t100\ta,b\t\t6\n", (4, "", False, "", "", 0)),
    ],
)
def test_a_link_begins_with_what_the_links_before_it_left(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], over: str, searched: bool, attempts: str, event: tuple[Any, ...],
) -> None:  # fmt: skip
    supervisor, _ = made(*words)
    (tmp_path / "run/attempts").write_text(attempts)
    events: list[Any] = []
    begun: list[bool] = []
    monkeypatch.setattr(supervisor, "tell", events.append)
    monkeypatch.setattr(supervisor, "_search_first", lambda: "/c/9")
    monkeypatch.setattr(supervisor.saves, "begin", lambda: None)
    assert not supervisor.saves.searched
    supervisor.saves.searched = searched
    monkeypatch.setattr(supervisor.chain, "claim", lambda: over)
    monkeypatch.setattr(supervisor.chain, "before", lambda: "before")
    monkeypatch.setattr(supervisor.chain, "begin", lambda: begun.append(True))
    monkeypatch.setattr(supervisor.files, "count_idle_links", lambda *_: 4)
    supervisor._begin()

    assert events == [machine.LinkBegins(("a", "b"), *event)]
    assert bool(begun) is (words[:1] == ("links=3",) and not over)


@pytest.mark.parametrize(
    ("words", "attempt", "lost", "sets", "log", "last"),
    [
        ((), 1, None, set(), "", []),
        ((), 2, ("b",), set(), "", ["b"]),
        (("keeps=yes",), 1, None, set(), "", []),
        (("keeps=yes",), 2, (), set(), "logs/attempt-2/batch.log", [""]),
        (("spares=1",), 1, None, {"MUSTER_PLACED"}, "", []),
    ],
)
def test_ranks_start_with_what_their_attempt_has_to_know(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], attempt: int, lost: tuple[str, ...] | None, sets: set[str], log: str, last: list[str],
) -> None:  # fmt: skip
    killed: list[bool] = []
    old = _running(kill=lambda: killed.append(True))
    supervisor, _ = made(*words, running=old if attempt > 1 else None)
    supervisor.environment["SLURM_NO_KILL"] = "1"
    started: list[tuple[list[str], dict[str, str]]] = []
    saves: list[bool] = []
    monkeypatch.setattr(RunningAttempt, "start", lambda _, *words: started.append(words))
    monkeypatch.setattr(supervisor, "_start_deputy", lambda: None)
    monkeypatch.setattr(supervisor, "_save", lambda: saves.append(True))
    supervisor.saves.is_asked = attempt > 1
    if lost is not None:
        supervisor.is_first, supervisor.lost = False, lost
    supervisor._do_start_ranks(machine.StartRanks(attempt, ("a",), "", attempt > 1))

    ((typed, environment),) = started
    assert typed == ["job.sh", "attempt", str(attempt), f"{tmp_path}/run", "", *last]
    assert supervisor.log == (f"{tmp_path}/run/{log}" if log else "")
    assert {name for name in environment if name.startswith("MUSTER_PLACED")} == sets
    assert ("SLURM_NO_KILL" in environment) is not bool(sets)
    assert ("SLURM_OVERLAP" in environment) is (attempt > 1)
    assert (bool(killed), bool(saves)) == (attempt > 1, attempt > 1)
    assert supervisor.is_first is False


@pytest.mark.parametrize("same", [True, False])
def test_an_answer_that_was_asked_for_by_an_earlier_attempt_is_not_heard(
    made: Any, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    supervisor, _ = made(attempt=3)
    events: list[Any] = []
    monkeypatch.setattr(supervisor, "tell", events.append)
    monkeypatch.setattr(supervisor, "_ask_slurm", lambda: "RUNNING")
    monkeypatch.setattr(supervisor, "_ask", lambda ask, take, _: (ask(), supervisor.post(lambda: take(ask()))))
    posted: list[Any] = []
    monkeypatch.setattr(supervisor, "post", posted.append)
    supervisor._do_ask_for(machine.AskFor("Slurm"))
    supervisor.state = supervisor.state._replace(attempt=3 if same else 4)
    posted[0]()

    assert events == (["RUNNING"] if same else [])


@pytest.mark.parametrize(
    ("fails", "action", "posts"),
    [
        (True, machine.StartRanks(1, ("a",), "", False), True),
        (False, machine.StartRanks(1, ("a",), "", False), False),
        (True, machine.QueueNext(), False),
    ],
)
def test_ranks_that_cannot_be_started_have_ended(
    made: Any, monkeypatch: pytest.MonkeyPatch, fails: bool, action: Any, posts: bool
) -> None:
    supervisor, _ = made()
    posted: list[Any] = []
    monkeypatch.setattr(machine, "decide", lambda terms, state, event, now: (state, (action,)))
    monkeypatch.setattr(supervisor, "attempt", lambda *_: not fails)
    monkeypatch.setattr(supervisor, "post", posted.append)
    supervisor.tell(machine.TimePassed())
    supervisor.status = 3
    supervisor.tell(machine.TimePassed())

    assert len(posted) == posts


@pytest.mark.parametrize(
    ("host", "nodes", "lives", "asked", "there"),
    [
        ("a", "a,b", None, "requeue", "b"),
        ("a", "a,b", False, "end", "b"),
        ("a", "a,b", True, "", ""),
        ("a", "a", None, "", ""),
        ("b", "a,b", None, "requeue", "a"),
    ],
)
def test_a_deputy_is_kept_on_another_host(
    made: Any, monkeypatch: pytest.MonkeyPatch, host: str, nodes: str, lives: bool | None, asked: str, there: str
) -> None:
    supervisor, _ = made("spares=1", f"requeue={'yes' if asked == 'requeue' else 'no'}")
    supervisor.rules.host, supervisor.hosts = host, tuple(nodes.split(","))
    old = None if lives is None else SimpleNamespace(is_alive=lambda: lives)
    supervisor.deputy = old
    kept: list[tuple[Any, ...]] = []
    monkeypatch.setattr(supervise, "keep_deputy", lambda *words: kept.append(words))
    supervisor._start_deputy()
    thread: Any = supervisor.deputy
    if thread is not old:
        thread.join(30)

    assert [where for _, where, _ in kept] == ([there] if there else [])
    assert not there or asked in kept[0][0]
    assert not there or thread.daemon


@pytest.mark.parametrize(("environment", "tasks"), [({"SLURM_TASKS_PER_NODE": "4(x3)"}, "2(x2)"), ({}, None)])
def test_a_job_that_has_fewer_nodes_has_the_variables_of_these(environment: dict[str, str], tasks: str | None) -> None:
    placed = supervise._placed(("a", "c"), 2, environment)

    assert (placed["SLURM_JOB_NODELIST"], placed["SLURM_NNODES"], placed["MUSTER_PLACED"]) == ("a,c", "2", "1")
    assert placed.get("SLURM_TASKS_PER_NODE") == tasks


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a pipe goes with its object
@pytest.mark.parametrize(
    ("status", "waits", "says"), [(0, False, True), (127, False, True), (137, False, False), (0, True, False)]
)
def test_a_deputy_that_did_not_start_is_told(
    monkeypatch: pytest.MonkeyPatch, status: int, waits: bool, says: bool
) -> None:
    clock = itertools.cycle([0.0, 61.0 if waits else 59.0])
    monkeypatch.setattr(deputy, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    said: list[str] = []
    keep_deputy(["sh", "-c", f"exit {status}"], "b", said.append)
    keep_deputy(["no-such-program"], "b", said.append)

    assert len(said) == says
    assert not says or said[0].startswith("muster: note: no deputy could be started on b")


@pytest.mark.parametrize(
    ("by", "words", "runs", "signals"),
    [
        ("TERM", (), True, ["steps TERM"]),
        ("KILL", (), True, ["steps KILL"]),
        ("TERM", ("starter=program",), True, ["programs 15", "steps TERM"]),
        ("KILL", ("starter=program",), True, ["programs 9", "steps KILL"]),
        ("starter", (), True, ["starters 9"]),
        ("TERM", (), False, []),
        ("TERM", (), None, []),
    ],
)
def test_what_runs_the_ranks_is_signalled_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, by: str, words: tuple[str, ...], runs: bool | None, signals: list[str]
) -> None:
    rules = Rules(["file=job.sh", *words], {"SLURM_JOB_ID": "7"})
    attempt = RunningAttempt(1, ("a",), rules, 0, lambda _: None, lambda *_: None)
    sent: list[str] = []
    monkeypatch.setattr(attempt, "_end_starters", lambda number: sent.append(f"starters {number:d}"))
    monkeypatch.setattr(attempt, "_signal_programs", lambda number: sent.append(f"programs {number:d}"))
    monkeypatch.setattr(attempt, "signal_steps", lambda by: sent.append(f"steps {by}"))
    attempt.child = None if runs is None else SimpleNamespace(pid=1)  # type: ignore[assignment]
    attempt.has_ended = runs is False
    attempt.end(by)

    assert sent == signals


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a pipe goes with its object
def test_an_attempt_is_killed_with_all_that_it_started() -> None:
    ended = threading.Event()
    rules = Rules(["file=job.sh"], {"SLURM_JOB_ID": "7"})
    attempt = RunningAttempt(1, ("a",), rules, 0, lambda act: act(), lambda *_: ended.set())

    def is_killed() -> bool:
        attempt.has_ended = False
        attempt.kill()
        return attempt.has_ended

    assert not is_killed()
    attempt.start(["-c", "echo said >&2; sleep 100 & wait"], {"PATH": os.environ["PATH"]})
    assert is_killed()
    assert ended.wait(30)
    assert not is_killed()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a pipe goes with its object
def test_the_errors_of_a_script_are_passed_on_and_their_end_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    ends: list[Any] = []
    ended = threading.Event()
    rules = Rules(["file=job.sh"], {"SLURM_JOB_ID": "7"})

    def hear(_: RunningAttempt, end: Any) -> None:
        ends.append(end)
        ended.set()

    attempt = RunningAttempt(1, ("a",), rules, 0, lambda act: act(), hear)
    attempt.start(["-c", "echo one >&2; echo ValueError: two >&2; exit 3"], {"PATH": os.environ["PATH"]})
    assert ended.wait(30)

    assert capfd.readouterr().err == "one\nValueError: two\n"
    assert (ends[0].status, ends[0].words, ends[0].is_preempted) == (3, "ValueError: two", False)


@pytest.mark.parametrize(
    ("lines", "rank", "host", "daemon"),
    [
        (["x", "muster: rank 3 on b ended with status 1", "muster: rank 1 on a ended with status 1"], 3, "b", ""),
        (["mpirun noticed that process rank 2 with PID 7 on node c exited on signal 9"], 2, "c", ""),
        (["Remote daemon: [[1,0],1] on node b"], None, "b", "mpirun lost its daemon on b"),
        (["muster: Slurm ended the step of mpirun's daemons"], None, "", "mpirun lost its daemon"),
        (
            ["a daemon has unexpectedly failed after launch"],
            None,
            "",
            "mpirun could not start its daemons on the nodes",
        ),
        (["x"], None, "", ""),
    ],
)
def test_the_first_rank_of_mpirun_is_the_one_that_it_tells_of(
    lines: list[str], rank: int | None, host: str, daemon: str
) -> None:
    assert told.first_of_mpirun(lines) == told.FailedRank(rank, host, daemon)
