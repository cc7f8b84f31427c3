"""The runner of roles decides in any order of events: nothing starts too early, nothing runs after the end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.life.loop import Loop, start_aside
from muster.life.roles import (
    LAST_S,
    EndRole,
    FinishRoles,
    JobTold,
    NoteRole,
    RoleEnded,
    RolePhase,
    RoleReady,
    RolesState,
    RoleTerms,
    StartRole,
    TimePasses,
    decide,
)

SERVE = RoleTerms("serve", within_s=60, is_asked=True)
DATA = RoleTerms("data")
TRAIN = RoleTerms("train", after=("serve", "data"), is_main=True)


class Play:
    """One job of roles that is stepped by hand."""

    def __init__(self, *roles: RoleTerms) -> None:
        self.roles = roles
        self.state = RolesState({role.name: RolePhase() for role in roles})
        self.now = 0.0
        self.did: list[Any] = []

    def step(self, event: Any, seconds: float = 1.0) -> list[Any]:
        self.now += seconds
        self.state, actions = decide(self.roles, self.state, event, self.now)
        self.did += actions
        return [action for action in actions if not isinstance(action, NoteRole)]

    def noted(self, what: str) -> list[str]:
        return [action.name for action in self.did if isinstance(action, NoteRole) and action.what == what]


def begun() -> Play:
    play = Play(SERVE, DATA, TRAIN)
    assert play.step(TimePasses()) == [StartRole("serve"), StartRole("data")]
    return play


def test_a_role_starts_when_all_that_it_needs_are_ready() -> None:
    play = begun()

    assert play.step(RoleReady("serve")) == []
    assert play.step(RoleReady("data")) == [StartRole("train")]


def test_the_end_of_the_main_role_ends_the_others_and_its_status_is_the_jobs() -> None:
    play = begun()
    play.step(RoleReady("serve"))
    play.step(RoleReady("data"))

    assert play.step(RoleEnded("train", 3)) == [EndRole("serve", "TERM"), EndRole("data", "TERM")]
    assert play.step(RoleEnded("data", 143)) == []
    assert play.step(RoleEnded("serve", 143)) == [FinishRoles(3)]
    assert play.noted("failed") == ["train"]


def test_what_does_not_end_in_time_is_killed_and_then_left() -> None:
    play = begun()
    play.step(JobTold(143))

    assert play.step(TimePasses(), seconds=9) == []
    assert play.step(TimePasses(), seconds=2) == [EndRole("serve", "KILL"), EndRole("data", "KILL")]
    assert play.step(TimePasses(), seconds=1) == []
    assert play.step(TimePasses(), seconds=LAST_S)[-1] == FinishRoles(143)
    assert play.noted("left") == ["serve", "data"]


@pytest.mark.parametrize(
    ("ended", "status"), [(RoleEnded("serve", 5), 5), (RoleEnded("serve", 0), 1), (RoleEnded("data", 7), 7)]
)
def test_a_role_that_ends_before_it_is_ready_ends_the_job_where_another_needs_it(ended: Any, status: int) -> None:
    play = begun()
    play.step(ended)

    assert play.state.status == status
    assert play.noted("failed") == [ended.name]


def test_a_role_that_did_its_work_before_anybody_looked_is_no_failure() -> None:
    play = begun()
    play.step(RoleReady("serve"))

    assert play.step(RoleEnded("data", 0)) == [StartRole("train")]


def test_a_role_that_is_never_ready_ends_the_job() -> None:
    play = begun()

    assert play.step(TimePasses(), seconds=59) == []
    assert play.step(TimePasses(), seconds=2) == [EndRole("serve", "TERM"), EndRole("data", "TERM")]
    assert play.noted("late") == ["serve"]


def test_a_role_that_nobody_needs_and_that_was_not_asked_for_a_sign_may_take_its_time() -> None:
    play = Play(RoleTerms("a", within_s=5), RoleTerms("b", is_main=True))
    play.step(TimePasses())

    assert play.step(TimePasses(), seconds=1000) == []


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_failure_that_is_only_noted_ends_nothing(*, is_ready: bool) -> None:
    play = Play(RoleTerms("data", ends_job=False), RoleTerms("train", is_main=True))
    play.step(TimePasses())
    if is_ready:
        play.step(RoleReady("data"))

    assert play.step(RoleEnded("data", 5)) == []
    assert play.noted("noted") == ["data"]
    assert play.step(RoleEnded("train", 0)) == [FinishRoles(0)]


@pytest.mark.parametrize("role", ["serve", "data"])
def test_the_first_cause_is_the_one_that_is_kept(role: str) -> None:
    play = begun()
    play.step(RoleReady("serve"))
    play.step(RoleReady("data"))
    play.step(RoleEnded(role, 9))
    play.step(RoleEnded("train", 1))

    assert play.noted("failed") == [role]
    assert play.state.status == 9


def test_nothing_starts_once_the_end_is_decided() -> None:
    play = begun()
    play.step(RoleReady("data"))
    play.step(JobTold(143))

    assert play.step(RoleReady("serve")) == []
    assert play.step(RoleEnded("serve", 0)) == []
    assert play.step(RoleEnded("data", 0)) == [FinishRoles(143)], "a role that waits holds up no end"


def test_a_second_reason_changes_nothing() -> None:
    play = begun()
    play.step(JobTold(143))

    assert play.step(JobTold(130)) == []
    assert play.state.status == 143


def test_a_role_is_ready_once_and_not_after_its_end() -> None:
    play = begun()
    for event in (RoleReady("serve"), RoleReady("serve"), RoleEnded("data", 0), RoleReady("data")):
        play.step(event)

    assert play.noted("ready") == ["serve"]


@pytest.mark.parametrize(("needed", "is_asked"), [(True, False), (False, True)])
def test_a_role_has_a_time_to_be_ready_if_another_waits_or_a_sign_was_asked_for(needed: bool, is_asked: bool) -> None:
    after = ("a",) if needed else ()
    play = Play(RoleTerms("a", within_s=5, is_asked=is_asked), RoleTerms("b", after=after, is_main=True))
    play.step(TimePasses())
    play.step(TimePasses(), seconds=6)

    assert play.noted("late") == ["a"]


def test_the_longest_grace_holds_for_all() -> None:
    play = Play(RoleTerms("a", grace_s=30), RoleTerms("b", is_main=True, grace_s=5))
    play.step(TimePasses())
    play.step(JobTold(143))

    assert play.step(TimePasses(), seconds=29) == []
    assert play.step(TimePasses(), seconds=2) == [EndRole("a", "KILL"), EndRole("b", "KILL")]


NAMES = ("a", "b", "c", "d")


def some_roles(chance: Random) -> tuple[RoleTerms, ...]:
    main = chance.choice(NAMES)
    roles = []
    for place, name in enumerate(NAMES):
        needs = tuple(chance.sample(NAMES[:place], chance.randint(0, min(2, place))))
        roles.append(RoleTerms(name, needs, name == main, chance.random() < 0.5, 60.0, chance.random() < 0.5))
    return tuple(roles)


@given(st.integers(0, 1 << 32))
@settings(deadline=None)
def test_any_order_of_events_ends_with_nothing_left(seed: int) -> None:
    """Roles do what roles do, in an order that nobody chose; a role that was told may be deaf until it is killed."""
    chance = Random(seed)  # noqa: S311
    roles = some_roles(chance)
    play = Play(*roles)
    running: set[str] = set()
    met: set[str] = set()
    deaf: set[str] = set()
    coming: list[Any] = [TimePasses()]
    for turn in range(2000):
        event = coming.pop(0) if coming else something(chance, turn, running, deaf, over=play.state.status is not None)
        if isinstance(event, RoleEnded):
            if event.name not in running:
                continue
            running.discard(event.name)
            if event.status == 0 and not next(role for role in roles if role.name == event.name).is_asked:
                met.add(event.name)
        elif isinstance(event, RoleReady):
            met.add(event.name)
        for action in play.step(event, seconds=chance.choice([0.1, 5.0, 40.0])):
            if isinstance(action, StartRole):
                assert play.state.status is None, "nothing starts once the end is decided"
                assert met.issuperset(next(role.after for role in roles if role.name == action.name))
                assert action.name not in running
                running.add(action.name)
            elif isinstance(action, EndRole) and action.by == "TERM":
                deaf.add(action.name) if chance.random() < 0.4 else coming.append(RoleEnded(action.name, 143))
            elif isinstance(action, EndRole):
                coming += [RoleEnded(action.name, 137)] if chance.random() < 0.8 else []
            elif isinstance(action, FinishRoles):
                assert running <= set(play.noted("left")), "nothing is left that is not named"
                assert action.status == play.state.status
                assert len(play.noted("failed") + play.noted("late")) <= 1
                return
    raise AssertionError("the job did not end")


def something(chance: Random, turn: int, running: set[str], deaf: set[str], *, over: bool) -> Any:
    """An event that may come now; a job that goes on for long is told to end."""
    names = sorted(running - deaf if over else running)
    kind = chance.choice(["time", "ready", "ends", "told" if turn > 40 else "time"])
    if kind == "ready" and running:
        return RoleReady(chance.choice(sorted(running)))
    if kind == "ends" and names:
        return RoleEnded(chance.choice(names), chance.choice([0, 1, 143]))
    return JobTold(143) if kind == "told" else TimePasses()


@pytest.mark.parametrize(("seconds", "killed"), [(4.5, False), (5.0, True)])
def test_a_role_that_does_not_end_is_killed_when_its_grace_is_over(seconds: float, killed: bool) -> None:
    play = Play(RoleTerms("a", is_main=True, grace_s=5.0))
    play.step(TimePasses())
    assert play.step(JobTold(143)) == [EndRole("a", "TERM")]
    assert play.step(TimePasses(), seconds) == ([EndRole("a", "KILL")] if killed else [])


@pytest.mark.parametrize(("seconds", "late"), [(60.0, False), (60.5, True)])
def test_a_role_has_all_of_its_time_to_be_ready(seconds: float, late: bool) -> None:
    play = begun()
    play.step(TimePasses(), seconds)
    assert bool(play.noted("late")) is late


@pytest.mark.parametrize("error", [None, OSError("no process"), ValueError("no number")])
def test_what_this_host_refuses_ends_no_job_and_is_said(
    error: Exception | None, capfd: pytest.CaptureFixture[str]
) -> None:
    def act(*words: str) -> None:
        if error is not None:
            raise error

    assert Loop().attempt("StartRanks", act, "x") is (error is None)
    said = capfd.readouterr().err
    assert said == ("" if error is None else f"muster: warning: StartRanks failed on this host: {error}\n")


def test_what_is_done_aside_holds_up_no_end() -> None:
    done: list[int] = []
    thread = start_aside(done.append, 1)
    thread.join(60)
    assert (thread.daemon, done) == (True, [1])
