"""The order of the roles of a job: each starts when those that it needs are ready, and the end of one may end all.

`decide(roles, state, event, now)` returns the next state and what is to be done. Pure; what is to be done,
`role_runner.py` does. Standard library only, Python 3.6.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

LAST_S = 30.0
"""So long after SIGKILL a role may take to end; then the job ends without it."""

WAITS, STARTS, READY, OVER = "waits", "starts", "ready", "over"


class RoleTerms(NamedTuple):
    """What was asked for one role."""

    name: str
    after: Tuple[str, ...] = ()
    is_main: bool = False
    ends_job: bool = True
    """Whether its failure ends the job."""
    within_s: float = 600.0
    is_asked: bool = False
    """Whether a way to be ready was asked for; else the role counts as ready when its ranks have begun."""
    grace_s: float = 10.0


class RolePhase(NamedTuple):
    """Where a role stands, and since when."""

    phase: str = WAITS
    since: float = 0.0


class RolesState(NamedTuple):
    """Where the job stands."""

    phases: Dict[str, RolePhase]
    status: Optional[int] = None
    """The status of the job, once its end is decided."""
    kill_at: float = 0.0
    was_killed: bool = False


class RoleReady(NamedTuple):
    """A role is ready."""

    name: str


class RoleEnded(NamedTuple):
    """The script of a role has ended."""

    name: str
    status: int


class JobTold(NamedTuple):
    """The job was told to end; the status is that of the signal."""

    status: int


class TimePasses(NamedTuple):
    """The job begins, or only time has passed."""


class StartRole(NamedTuple):
    """Start the ranks of a role."""

    name: str


class EndRole(NamedTuple):
    """Signal a role: TERM or KILL."""

    name: str
    by: str


class NoteRole(NamedTuple):
    """Write down what happened to a role."""

    name: str
    what: str
    """starts, ready, ended; failed or late: the cause of the end; noted: a failure that ends nothing; left."""
    status: int = 0
    words: str = ""


class FinishRoles(NamedTuple):
    """End the job."""

    status: int


def decide(roles: Sequence[RoleTerms], state: RolesState, event: Any, now: float) -> Tuple[RolesState, List[Any]]:
    """Return the next state, and what is to be done."""
    if isinstance(event, RoleReady):
        return _ready(roles, state, event.name, now)
    if isinstance(event, RoleEnded):
        return _ended(roles, state, event, now)
    if isinstance(event, JobTold):
        return _end(roles, state, event.status, now, [])
    return _time(roles, state, now)


def _with(state: RolesState, name: str, phase: str, now: float) -> RolesState:
    return state._replace(phases={**state.phases, name: RolePhase(phase, now)})


def _start_next(
    roles: Sequence[RoleTerms], state: RolesState, now: float, actions: List[Any]
) -> Tuple[RolesState, List[Any]]:
    """Start each role that waits and whose needs are met: a role that was ready and has ended well meets them."""
    for role in roles:
        met = all(state.phases[name].phase in (READY, OVER) for name in role.after)
        if state.status is None and state.phases[role.name].phase == WAITS and met:
            state = _with(state, role.name, STARTS, now)
            actions = actions + [StartRole(role.name), NoteRole(role.name, "starts")]
    return state, actions


def _ready(roles: Sequence[RoleTerms], state: RolesState, name: str, now: float) -> Tuple[RolesState, List[Any]]:
    if state.phases[name].phase != STARTS:
        return state, []
    return _start_next(roles, _with(state, name, READY, now), now, [NoteRole(name, "ready")])


def _ended(roles: Sequence[RoleTerms], state: RolesState, event: RoleEnded, now: float) -> Tuple[RolesState, List[Any]]:
    role = next(role for role in roles if role.name == event.name)
    before = state.phases[role.name].phase
    state = _with(state, role.name, OVER, now)
    actions = [NoteRole(role.name, "ended", event.status)]  # type: List[Any]
    if state.status is not None:
        return (state, actions + [FinishRoles(state.status)]) if _is_over(state) else (state, actions)
    if role.is_main:
        failed = [NoteRole(role.name, "failed", event.status)] if event.status else []
        return _end(roles, state, event.status, now, actions + failed)
    is_early = before == STARTS and (role.is_asked or event.status != 0)
    if is_early and _is_needed(roles, state, role.name):
        words = "it ended before it was ready"
        actions = actions + [NoteRole(role.name, "failed", event.status, words)]
        return _end(roles, state, event.status or 1, now, actions)
    if event.status == 0:
        return _start_next(roles, state, now, actions)
    if role.ends_job:
        return _end(roles, state, event.status, now, actions + [NoteRole(role.name, "failed", event.status)])
    return state, actions + [NoteRole(role.name, "noted", event.status)]


def _is_needed(roles: Sequence[RoleTerms], state: RolesState, name: str) -> bool:
    """Return whether a role that waits needs this one."""
    return any(name in role.after and state.phases[role.name].phase == WAITS for role in roles)


def _is_over(state: RolesState) -> bool:
    return all(place.phase in (OVER, WAITS) for place in state.phases.values())


def _end(
    roles: Sequence[RoleTerms], state: RolesState, status: int, now: float, actions: List[Any]
) -> Tuple[RolesState, List[Any]]:
    """End the job: the roles that run are told; a second reason changes nothing."""
    if state.status is not None:
        return state, actions
    running = [role for role in roles if state.phases[role.name].phase in (STARTS, READY)]
    grace = max([role.grace_s for role in running] or [0.0])
    state = state._replace(status=status, kill_at=now + grace)
    if not running:
        return state, actions + [FinishRoles(status)]
    return state, actions + [EndRole(role.name, "TERM") for role in running]


def _time(roles: Sequence[RoleTerms], state: RolesState, now: float) -> Tuple[RolesState, List[Any]]:
    running = [role for role in roles if state.phases[role.name].phase in (STARTS, READY)]
    if state.status is None:
        for role in running:
            phase = state.phases[role.name]
            counts = role.is_asked or _is_needed(roles, state, role.name)
            if phase.phase == STARTS and counts and now - phase.since > role.within_s:
                words = "it was not ready after {:g} s".format(role.within_s)
                return _end(roles, state, 1, now, [NoteRole(role.name, "late", 1, words)])
        return _start_next(roles, state, now, [])
    if now >= state.kill_at and not state.was_killed:
        return state._replace(was_killed=True), [EndRole(role.name, "KILL") for role in running]
    if now >= state.kill_at + LAST_S:
        return state, [NoteRole(role.name, "left") for role in running] + [FinishRoles(state.status)]
    return state, []
