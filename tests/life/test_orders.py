"""Random orders of events against the machine of `muster.life`, with a simulated Slurm; and broken machines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from life.simulated import FAULTS, World
from muster.life import machine
from muster.life.machine import FirstCause, LifePhase, LifeState, LifeTerms, decide

_FIRST = int(os.environ.get("MUSTER_TEST_SEED", "4000"))  # among these, each rule is met
_COUNT = int(os.environ.get("MUSTER_TEST_ORDERS", "1000"))


def test_every_order_ends_as_it_has_to_and_they_meet_every_rule_and_every_fault() -> None:
    """No false success, no work twice at a time, no link after a cancel, no standstill, no wrong cause."""
    wrong: dict[int, Any] = {}
    met: Counter[tuple[str, type]] = Counter()
    faults: Counter[str] = Counter()

    def counted(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
        met[state.phase, type(event)] += 1
        return decide(terms, state, event, now)

    for seed in range(_FIRST, _FIRST + _COUNT):
        world = World(seed, counted)
        wrong |= {seed: found} if (found := world.play()) else {}
        faults.update(line.partition("fault: ")[2] for line in world.trace if "fault: " in line)

    assert not wrong
    # Slurm ends a job with a dead node long before these bounds, and nothing is slower than the disk.
    rare = {
        (LifePhase.AWAITS, machine.TimePassed),
        (LifePhase.CLOSES, machine.TimePassed),
        (LifePhase.CLOSES, machine.ToldToEnd),
    }
    assert set(machine.RULES) - set(met) <= rare
    assert set(faults) == set(FAULTS)


def _believes_srun(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if isinstance(event, machine.StepFails) and terms.hears_all and not event.words:
        return state, ()  # nobody has counted
    if isinstance(event, (machine.NodeFailed, machine.EndsUnknown)) and "is not known" in event.words:
        return state, ()
    if isinstance(event, machine.StepEnded) and terms.hears_all and state.first is None:
        state, event = state._replace(said=tuple(range(terms.ranks))), machine.StepEnded(0)
    return decide(terms, state, event, now)


def _does_not_wait_for_the_nodes(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    state, actions = decide(terms, state, event, now)
    actions = tuple(action for action in actions if action != machine.AskFor("nodes", state.hosts))
    return state._replace(missing=tuple(each for each in state.missing if each != "nodes")), actions


def _takes_its_own_first_run_for_the_link_before(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if isinstance(event, machine.LinkBegins) and event.has_begun:
        event = event._replace(has_begun=False, before="")
    if isinstance(event, machine.LinkBefore) and event.state == "COMPLETED":
        event = event._replace(state="COMPLETED of the link before")
    return decide(terms, state, event, now)


def _does_not_hear_of_a_cancel(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if isinstance(event, machine.OutputSays):
        event = machine.OutputSays(is_cancelled=False)
    return decide(terms, state, event, now)


def _ends_no_deaf_rank(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if state.phase == LifePhase.ENDS_STEP and isinstance(event, machine.TimePassed):
        return state._replace(until=None), ()
    return decide(terms, state, event, now)


def _waits_for_busy_nodes(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if isinstance(event, machine.StepWaits):
        return state, ()
    return decide(terms, state, event, now)


def _believes_the_first_error(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    first = state.first
    state, actions = decide(terms, state, event, now)
    if first is not None and state.first is not None and state.attempt:
        state = state._replace(first=first)
    return state, tuple(
        action._replace(cause=first) if isinstance(action, machine.NoteEnd) else action for action in actions
    )


def _forgets_the_newest_checkpoint(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Any:
    if state.phase == LifePhase.JUDGES and isinstance(event, machine.Newest):
        event = machine.Newest(state.checkpoint or "")
    return decide(terms, state, event, now)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (_believes_srun, "it is called done"),
        (_does_not_wait_for_the_nodes, "work twice"),
        (_takes_its_own_first_run_for_the_link_before, "nothing says so"),
        (_does_not_hear_of_a_cancel, "after a cancellation"),
        (_ends_no_deaf_rank, "stood still"),
        (_waits_for_busy_nodes, "stood still"),
        (_believes_the_first_error, "the cause that is named"),
        (_forgets_the_newest_checkpoint, "the newest checkpoint is"),
    ],
)
def test_a_broken_machine_is_noticed(broken: Callable[..., Any], complaint: str) -> None:
    complaints = (each for seed in range(2000) for each in World(seed, broken).play())

    assert any(complaint in each for each in complaints)


@pytest.mark.parametrize("seed", [2501, 6871, 11111, 21091, 53320])
def test_an_order_that_was_wrong_once(seed: int) -> None:
    assert World(seed).play() == []


@pytest.mark.parametrize(
    ("words", "killed_s", "dead", "cause"),
    [
        ("ConnectionError: reset", 12.0, (), ("", None)),
        ("ConnectionError: reset", 9.0, (), ("rank", 1)),
        ("ConnectionError: reset", 12.0, ("n2",), ("node", None)),
        ("ValueError: 7", 12.0, (), ("rank", 0)),
    ],
)
def test_a_rank_that_only_sigkill_ended_may_be_the_peer_that_was_lost(
    words: str, killed_s: float, dead: tuple[str, ...], cause: tuple[str, int | None]
) -> None:
    """It was deaf, or its host was away and is back: nobody has looked which."""
    terms, state = LifeTerms(2, 2, spares=1), LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    for event, now in (
        (machine.RankEnded(0, "n1", 1), 1.0),
        (machine.RankEnded(1, "n2", 137), killed_s),
        (machine.RankEnded(0, "n1", 1, words), 13.0),
        (machine.StepEnded(1), 13.0),
        (machine.SlurmSays("RUNNING", ("n1", "n2")), 14.0),
        (machine.NodesSay(dead), 15.0),
    ):
        state, actions = decide(terms, state, event, now)

    (first,) = [action.cause or machine.FirstCause("") for action in actions if isinstance(action, machine.NoteEnd)]
    assert (first.kind, first.rank) == cause
    both = "rank 0 on n1 lost a connection (ConnectionError: reset), and rank 1 on n2 ended only by SIGKILL"
    assert first.kind or first.words == both


@pytest.mark.parametrize(
    ("ended", "dead", "kind"),
    [
        (machine.RankEnded(1, "n2", 143), (), ""),
        (machine.NodeFailed("n2", "mpirun lost its daemon on n2"), (), ""),
        (machine.NodeFailed("n2", "n2 failed"), ("n2",), "node"),
        (machine.RankEnded(1, "n2", 7, "ValueError: 7"), (), "rank"),
    ],
    ids=["SIGTERM", "a daemon", "a dead node", "an own failure"],
)
@pytest.mark.parametrize("links", [0, 9])
def test_a_job_that_is_preempted_starts_no_ranks_in_its_grace_time(
    ended: machine.RankEnded | machine.NodeFailed, dead: tuple[str, ...], kind: str, links: int
) -> None:
    """Slurm's SIGTERM reaches the ranks, and not always the script; the job runs on until the grace time is over."""
    terms = LifeTerms(2, 2, restarts=2, spares=1, link=int(links > 0), links=links)
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2", "n3"))
    for event in (
        ended,
        machine.StepEnded(143),
        machine.NodesSay(dead),
        machine.SlurmSays("RUNNING", ("n1", "n2", "n3"), is_preempted=True),
        *([machine.OutputSays(is_cancelled=False)] if links else []),
    ):
        state, actions = decide(terms, state, event, 1.0)

    assert not [action for action in actions if isinstance(action, machine.StartRanks)]
    (note,) = [action for action in actions if isinstance(action, machine.NoteEnd)]
    assert (note.decision, note.why) == ("next" if links else "end", "the job was preempted")
    assert (note.cause or machine.FirstCause("")).kind == kind


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("train.py: error: unrecognized arguments: --x", False),
        ("muster: error: the node n2 does not see the working directory /work", True),
        ("muster: error: port 29517 of n2 is taken", True),
        ("muster: error: this rank was not started by mpirun", False),
    ],
)
def test_what_may_be_well_the_next_time_is_no_error_of_usage(words: str, again: bool) -> None:
    """A node lost the shared folder for six seconds, and the restart was refused as an error of usage."""
    terms = LifeTerms(2, 2, restarts=1)
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    for event in (
        machine.RankEnded(1, "n2", 2, words),
        machine.StepEnded(2),
        machine.SlurmSays("RUNNING", ("n1", "n2")),
        machine.NodesSay(()),
    ):
        state, actions = decide(terms, state, event, 1.0)

    assert any(isinstance(action, machine.StartRanks) for action in actions) is again
    assert ("an error of usage" in state.why) is not again


def test_a_rank_that_ends_later_and_says_why_is_not_the_first() -> None:
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    for event in (machine.RankEnded(0, "n1", 1), machine.RankEnded(1, "n2", 1, "ConnectionError: reset")):
        state, _ = decide(LifeTerms(2, 2), state, event, 1.0)
    assert state.first == machine.FirstCause("rank", 0, "n1", 1)


def test_a_node_that_no_spare_replaces_is_waited_for_with_a_bound() -> None:
    state = LifeState(phase=LifePhase.AWAITS, dead=("node2",), until=900.0, status=1)

    assert decide(LifeTerms(2, 2), state, machine.TimePassed(), 899.0)[1] == ()
    state, actions = decide(LifeTerms(2, 2), state, machine.TimePassed(), 900.0)
    assert (state.phase, state.why, actions[-1]) == (LifePhase.OVER, "node2 starts no step", machine.EndScript(1))


def test_a_link_ends_where_its_output_cannot_be_read() -> None:
    state = LifeState(
        phase=LifePhase.CLOSES, until=60.0, missing=("output",), decision="done", why="the script is done"
    )

    state, actions = decide(LifeTerms(2, 2, link=1, links=3), state, machine.TimePassed(), 60.0)
    assert [type(action).__name__ for action in actions] == ["NoteEnd", "CloseJob", "WithdrawNext", "EndScript"]
    assert actions[-1] == machine.EndScript(0)


@pytest.mark.parametrize(
    ("link", "decision", "told", "status"),
    [(2, "saved", 0, 0), (3, "saved", 0, 75), (3, "end", 143, 143), (3, "end", 0, 1)],
)
def test_only_the_last_link_that_saved_has_a_status_of_its_own(
    link: int, decision: str, told: int, status: int
) -> None:
    state = LifeState(
        phase=LifePhase.CLOSES, until=60.0, missing=("output",), decision=decision, told=told, is_outside=True
    )

    actions = decide(LifeTerms(2, 2, link=link, links=3), state, machine.TimePassed(), 60.0)[1]
    assert actions[-1] == machine.EndScript(status)


@pytest.mark.parametrize(
    ("idle_links", "has_begun", "is_over"), [(1, False, False), (2, False, True), (2, True, False)]
)
def test_two_links_without_a_new_checkpoint_are_the_last(idle_links: int, has_begun: bool, is_over: bool) -> None:
    terms = LifeTerms(2, 2, link=3, links=9, checkpoints=True)
    begins = machine.LinkBegins(("node1", "node2"), before="next", idle_links=idle_links, has_begun=has_begun)

    names = [type(action).__name__ for action in decide(terms, LifeState(), begins, 0.0)[1]]
    over = ["CloseJob", "WithdrawNext", "NoteEnd", "EndScript"]
    assert names == (over if is_over else ["QueueNext", "StartRanks"])


def test_the_next_step_starts_beside_one_whose_srun_was_killed() -> None:
    """Slurm calls the nodes busy for as long as it keeps the step of a slurmstepd that is gone."""
    terms, state = LifeTerms(2, 2, restarts=1), LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    for event, now in (
        (machine.RankEnded(0, "n1", 1), 1.0),
        (machine.TimePassed(), 11.0),  # SIGKILL
        (machine.TimePassed(), 71.0),  # its srun
        (machine.StepEnded(137), 72.0),
        (machine.SlurmSays("RUNNING", ("n1", "n2")), 73.0),
    ):
        state, _ = decide(terms, state, event, now)
    actions = decide(terms, state, machine.NodesSay(()), 74.0)[1]

    assert [action.beside for action in actions if isinstance(action, machine.StartRanks)] == [True]


@pytest.mark.parametrize(
    ("links", "reasons", "later_s", "decision"),
    [
        (9, ("asked",), 5.0, "saved"),
        (9, ("asked",), 601.0, "done"),
        (0, ("asked",), 5.0, "done"),
        (9, ("limit",), 601.0, "saved"),
        (0, ("limit", "asked"), 5.0, "saved"),
    ],
)
def test_ranks_that_end_after_they_were_asked_to_save_leave_the_rest_to_the_next_link(
    links: int, reasons: tuple[str, ...], later_s: float, decision: str
) -> None:
    """Seen on a lab: the script saves and ends at the signal, and the chain was closed in the middle of its work."""
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"), attempt=1)
    terms, now = LifeTerms(2, 2, link=int(links > 0), links=links), 7.0
    done: list[Any] = []
    for event in (
        *map(machine.RanksSave, reasons),
        machine.EndsCounted(),
        machine.StepEnded(0),
        machine.OutputSays(is_cancelled=False),
    ):
        state, actions = decide(terms, state, event, now)
        done += actions
        now = 7.0 + later_s

    (note,) = [action for action in done if isinstance(action, machine.NoteEnd)]
    assert note.decision == decision
    assert any(isinstance(action, machine.QueueNext) for action in done) is (links > 0 and decision == "saved")


def test_a_node_that_was_lost_or_lost_the_folder_is_taken_last_while_slurm_lists_it() -> None:
    terms = LifeTerms(2, 2, restarts=5, spares=1)
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2", "n3"))
    hosts = []
    every = ("n1", "n2", "n3")
    answers = [(("n2",), ()), ((), ()), (("n3",), ()), ((), ("n1",)), ((), every)]
    for number, (dead, blind) in enumerate(answers):
        for event in (
            machine.RankEnded(0, "n1", number + 3),
            machine.StepEnded(number + 3),
            machine.SlurmSays("RUNNING", ("n1", "n2", "n3")),
            machine.NodesSay(dead, blind),
        ):
            state, actions = decide(terms, state, event, float(number))
        hosts += [action.hosts for action in actions if isinstance(action, machine.StartRanks)]
        assert state.blind == blind, "it is told as one that lives"

    assert hosts == [("n1", "n3"), ("n1", "n3"), ("n1", "n2"), ("n2", "n3"), ("n2", "n3")]


@pytest.mark.parametrize("is_reached", [False, True])
def test_a_rank_is_named_for_its_silence_only_where_slurm_got_the_signals(is_reached: bool) -> None:
    """A killed srun reports no end: without a controller nobody ended the other rank."""
    terms, state = LifeTerms(2, 2), LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    events = [
        (machine.RankEnded(0, "n1", 1), 1.0),
        (machine.TimePassed(), 11.0),  # SIGKILL
        (machine.NodesSay(()), 12.0),
        (machine.TimePassed(), 71.0),  # its srun
        (machine.RankEnded(0, "n1", 1, "ConnectionError: Connection refused"), 72.0),
        (machine.StepEnded(137), 72.0),
        (machine.SlurmSays("RUNNING", ("n1", "n2")), 73.0),
        (machine.NodesSay(()), 74.0),
    ]
    for event, now in events if is_reached else [*events[:2], *events[3:]]:
        state, actions = decide(terms, state, event, now)

    causes = [action.cause for action in actions if isinstance(action, machine.NoteEnd)]
    assert [cause and cause.rank for cause in causes] == ([1] if is_reached else [None])


@pytest.mark.parametrize("before", ["", "done", "end"])
def test_a_link_told_to_end_before_its_disk_has_answered_asks_for_no_link_before(before: str) -> None:
    """Slurm kills the script 30 seconds after it told it to end; what a link before closed stays closed."""
    terms = LifeTerms(2, 2, link=2, links=3, checkpoints=True)
    state, _ = decide(terms, LifeState(), machine.ToldToEnd(143), 1.0)
    state, actions = decide(terms, state, machine.LinkBegins(("n1", "n2"), before=before, checkpoint=None), 2.0)
    if not before:
        assert actions == (machine.AskFor("output"),)
        actions = decide(terms, state, machine.OutputSays(is_cancelled=True), 3.0)[1][1:]
    names = [type(action).__name__ for action in actions]
    assert (names, actions[-1].status) == (["CloseJob", "WithdrawNext", "EndScript"], 0 if before else 143)


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "PENDING", "SUSPENDED", "REQUEUED"])
def test_a_job_before_that_is_not_over_closes_nothing_and_starts_nothing(state: str) -> None:
    """An operator put it back into the queue, or Slurm still cleans up after it."""
    terms = LifeTerms(2, 2, link=2, links=9)
    machine_state, actions = decide(terms, LifeState(), machine.LinkBegins(("n1", "n2")), 0.0)
    assert actions == (machine.AskFor("link before"),)
    for now in range(1, 11):
        machine_state, actions = decide(terms, machine_state, machine.LinkBefore(state), now * 60.0 - 1)
        assert actions == ()
        machine_state, actions = decide(terms, machine_state, machine.TimePassed(), now * 60.0)
        assert actions == (machine.AskFor("link before"),)

    _, actions = decide(terms, machine_state, machine.TimePassed(), 660.0)
    assert actions == (machine.QueueNext(), machine.EndScript(0))
    _, actions = decide(terms, machine_state, machine.LinkBefore("TIMEOUT"), 659.0)
    assert [type(action).__name__ for action in actions] == ["QueueNext", "StartRanks"]


def test_a_job_that_is_suspended_is_asked_for_again() -> None:
    terms = LifeTerms(2, 2, restarts=1)
    state = LifeState(phase=LifePhase.RUNS, hosts=("n1", "n2"), pool=("n1", "n2"))
    for event, now in (
        (machine.RankEnded(0, "n1", 1), 1.0),
        (machine.StepEnded(1), 2.0),
        (machine.NodesSay(()), 3.0),
        (machine.SlurmSays("SUSPENDED", ("n1", "n2")), 4.0),
    ):
        state, actions = decide(terms, state, event, now)
    assert (state.phase, actions) == (LifePhase.JUDGES, ())
    state, actions = decide(terms, state, machine.TimePassed(), 70.0)
    assert actions == (machine.AskFor("Slurm"),)
    _, actions = decide(terms, state, machine.SlurmSays("RUNNING", ("n1", "n2")), 71.0)
    assert [type(action).__name__ for action in actions] == ["NoteEnd", "StartRanks"]


@pytest.mark.parametrize("links", [0, 9])
@pytest.mark.parametrize(("told", "status"), [(0, 1), (143, 143)])
def test_checkpoints_that_are_not_known_start_no_ranks(links: int, told: int, status: int) -> None:
    terms = LifeTerms(2, 2, link=int(links > 0), links=links, checkpoints=True)
    state = decide(terms, LifeState(), machine.ToldToEnd(told), 0.0)[0] if told else LifeState()
    state, first = decide(terms, state, machine.LinkBegins(("n1", "n2"), checkpoint=None), 0.0)
    actions = first
    if links:
        state, more = decide(terms, state, machine.OutputSays(is_cancelled=False), 1.0)
        actions += more

    assert not [action for action in actions if isinstance(action, (machine.StartRanks, machine.CloseJob))]
    assert actions[-1] == machine.EndScript(status)
    assert [action.decision for action in actions if isinstance(action, machine.NoteEnd)] == [
        "next" if links else "end"
    ]
    assert (machine.QueueNext() in actions) is bool(links)


_LOST = FirstCause("rank", 1, "n2", 1, "ConnectionError: Connection reset")


@pytest.mark.parametrize(
    ("changed", "why", "is_outside"),
    [
        ({}, "the same ranks start again", None),
        ({"slurm": None}, "the same ranks start again", None),
        ({"slurm": machine.SlurmSays("COMPLETING", ("n1", "n2"))}, "the job itself ends (COMPLETING)", True),
        ({"slurm": machine.SlurmSays("", ("n1", "n2"))}, "the same ranks start again", None),
        ({"slurm": machine.SlurmSays("RUNNING", ("n1", "n2"), is_late=True)}, "the time limit was reached", True),
        ({"slurm": machine.SlurmSays("RUNNING", ())}, "the same ranks start again", None),
        ({"restarts": 1}, "that was allowed 1 times", False),
        ({"status": 3, "first": FirstCause("rank", 1, "n2", 3, "SyntaxError: x")}, None, False),
        ({"signature": "1:rank:ValueError: x"}, "the same first error came twice, and no new checkpoint", False),
        ({"signature": "1:rank:ValueError: x", "newest": "c"}, "the same ranks start again", None),
    ],
)
def test_an_attempt_that_failed_is_judged_by_all_answers(
    changed: dict[str, Any], why: str | None, is_outside: bool | None
) -> None:
    state = LifeState(
        phase=LifePhase.JUDGES, hosts=("n1", "n2"), pool=("n1", "n2"), attempt=1, status=1, said=(0,), failed=(1,),
        slurm=machine.SlurmSays("RUNNING", ("n1", "n2")), first=FirstCause("rank", 1, "n2", 1, "ValueError: x"),
    )  # fmt: skip
    after, actions = machine._judge(LifeTerms(2, 2, restarts=1), state._replace(**changed))

    noted = [action.why for action in actions if isinstance(action, machine.NoteEnd)]
    if is_outside is None:
        assert noted == [why]
        assert any(isinstance(action, machine.StartRanks) for action in actions)
        return
    assert why is None or after.why.startswith(why)
    assert after.is_outside is is_outside
    assert not any(isinstance(action, machine.StartRanks) for action in actions)


@pytest.mark.parametrize(
    ("changed", "kind", "rank"),
    [
        ({}, "rank", 0),
        ({"said": (0,)}, "rank", 1),
        ({"beside": True}, None, None),
        ({"beside": True, "is_reached": True}, "rank", 0),
        ({"dead": ("n2",)}, "node", None),
        ({"first": None}, None, None),
        ({"first": _LOST._replace(kind="hang")}, "hang", 1),
    ],
)
def test_a_rank_that_lost_a_connection_is_not_the_first_where_another_is_silent(
    changed: dict[str, Any], kind: str | None, rank: int | None
) -> None:
    state = LifeState(
        phase=LifePhase.JUDGES, hosts=("n1", "n2"), pool=("n1", "n2", "n3"), attempt=1, status=1, failed=(1,),
        slurm=machine.SlurmSays("RUNNING", ("n1", "n2", "n3")), first=_LOST,
    )  # fmt: skip
    _, actions = machine._judge(LifeTerms(2, 2, restarts=1, spares=1), state._replace(**changed))
    (cause,) = [action.cause for action in actions if isinstance(action, machine.NoteEnd)]

    assert (cause and cause.kind, cause and cause.rank) == (kind, rank)
