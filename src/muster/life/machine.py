"""The life of a job: `decide(terms, state, event, now)` returns the next state, and the actions that are to be done.

One long file, so that a script can carry it; one link of a job is one such machine. Pure: an event brings the time,
and an action is a value. Each rule is a function in the table RULES, by the phase and the event; an event that has no
rule in a phase changes nothing. docs/explanation/life.md is made from the table. Standard library only, Python 3.6: a
batch host's own Python can run it.
"""

import re
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

ANSWER_S = 60.0
"""So long one question to Slurm, the nodes or the disk may stay unanswered."""

BUSY_S = 600.0
"""So long Slurm may call the nodes busy before a step that starts again is given up."""

LOST_S = 900.0
"""So long a job waits for Slurm to end it, after a node has died that no spare node replaces."""

SAVE_S = 600.0
"""So long after somebody asked ranks to save they may end because of that: a script may do the same at every save."""

NEAR_S = 5.0
"""So long before Slurm's word that a node is down, Slurm may have ended ranks of other nodes."""

KILL_EARLY_S = 0.5
"""So much before the end of the grace time a rank may get SIGKILL: the script of the attempt has a clock of its own."""

IDLE_LINKS = 2
"""So many links in turn may end without a new checkpoint."""

LEFT_UNDONE = 75
"""The status of the last link whose ranks saved: jobs that wait for its success do not start."""

_NO_PROGRESS = "no new checkpoint in two links"

# What Slurm says of a job whose end may still come; each of these passes, or an operator ends it.
_STANDING = ("SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "CONFIGURING")
_NOT_OVER = (*_STANDING, "RUNNING", "COMPLETING", "STAGE_OUT", "PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")


class LifePhase:
    """Where a link stands."""

    BEGINS = "begins"
    LOOKS_BACK = "looks back"
    RUNS = "runs"
    ENDS_STEP = "ends the step"
    JUDGES = "judges"
    AWAITS = "awaits its end"
    CLOSES = "closes"
    OVER = "over"


class LifeTerms(NamedTuple):
    """What was asked for, and what this link is."""

    ranks: int
    nodes: int
    restarts: int = 0
    spares: int = 0
    link: int = 0
    """Which link this is; 0: the job has no links."""
    links: int = 0
    checkpoints: bool = False
    """Whether the folder of the checkpoints is known."""
    grace_s: float = 10.0
    is_shared: bool = False
    """Whether other runs may hold the nodes: the job lies in somebody's allocation."""
    hears_all: bool = True
    """Whether the end of each rank is heard of, as srun tells it; agents and mpirun tell of the first failure."""


class FirstCause(NamedTuple):
    """The first thing that went wrong in an attempt."""

    kind: str
    """rank, node, hang, memory, unsaid (how ranks of a host ended is not known), idle (two links saved
    nothing), or empty."""
    rank: Optional[int] = None
    host: str = ""
    status: int = 0
    words: str = ""


class LinkBegins(NamedTuple):
    """The script of this link begins."""

    hosts: Tuple[str, ...]
    attempt: int = 1
    over: str = ""
    """Why nothing is left to do, where that is written down."""
    has_begun: bool = False
    """Whether this link ran before: Slurm has put it back into the queue."""
    before: str = ""
    """What the last attempt of the links before wrote down of its end."""
    checkpoint: Optional[str] = ""
    """The newest whole checkpoint; None: that is not known."""
    idle_links: int = 0
    """How many links before this one, in turn, ended without a new checkpoint."""


class LinkBefore(NamedTuple):
    """Slurm says how the last job that started ranks ended; empty: Slurm does not know that job any more."""

    state: str


class RankEnded(NamedTuple):
    """The end of one rank is reported, with its status and the last error line that it wrote."""

    rank: int
    host: str
    status: int
    words: str = ""
    others: Tuple[int, ...] = ()
    """Other ranks of this host that ended in the same way, in the same word of srun."""


class RanksLeft(NamedTuple):
    """These ranks have said that they ended with status 0, the first of them on this host."""

    ranks: Tuple[int, ...]
    host: str


class EndsCounted(NamedTuple):
    """Each rank said that it ended with status 0: the script has counted."""


class StepFails(NamedTuple):
    """What started the ranks has failed: an agent, mpirun; with words, Slurm ended the step for its memory."""

    status: int
    words: str = ""
    host: str = ""
    """That of an agent which ended by itself, and not because it lost the store of another node."""


class NodeFailed(NamedTuple):
    """The launcher or Slurm says that a node of the ranks has failed."""

    host: str
    words: str = ""


class EndsUnknown(NamedTuple):
    """How ranks of a host ended is not known, though the program that started them says 0."""

    host: str
    words: str


class HangSeen(NamedTuple):
    """The watch says that the ranks do not go on."""

    reason: str


class RanksSave(NamedTuple):
    """Ranks were told to save: because of the limit, a preemption, a cancellation, or because somebody asked."""

    reason: str


class ToldToEnd(NamedTuple):
    """The script was told to end; the status is that of the signal."""

    status: int


class StepWaits(NamedTuple):
    """Slurm calls the nodes busy, and the step does not begin."""


class StepEnded(NamedTuple):
    """The program that started the ranks has ended."""

    status: int


class SlurmSays(NamedTuple):
    """Slurm's answer about this job: its state, its nodes, and whether its time is over."""

    state: str
    hosts: Tuple[str, ...] = ()
    is_late: bool = False
    is_preempted: bool = False
    """Whether a more important job takes its nodes: it runs on for a grace time, and its ranks had SIGTERM."""


class NodesSay(NamedTuple):
    """The nodes that cannot start a step, and those that do not see the folder of the run."""

    dead: Tuple[str, ...]
    blind: Tuple[str, ...] = ()


class Newest(NamedTuple):
    """The newest whole checkpoint; empty: there is none."""

    checkpoint: str


class OutputSays(NamedTuple):
    """What is written of the end of this job: whether it was cancelled, and why nothing is left to do."""

    is_cancelled: bool
    over: str = ""


class TimePassed(NamedTuple):
    """Only time has passed."""


class StartRanks(NamedTuple):
    """Start the ranks on these nodes; where the step of a dead node may stand, beside it."""

    attempt: int
    hosts: Tuple[str, ...]
    checkpoint: str
    beside: bool


class EndStep(NamedTuple):
    """Signal the step of the ranks, never the job: TERM, KILL, or the program that started the ranks itself."""

    by: str


class AskFor(NamedTuple):
    """Ask Slurm about this job or the last that started ranks, the nodes, the disk, or the output for the reason."""

    of: str
    hosts: Tuple[str, ...] = ()


class NoteEnd(NamedTuple):
    """Write down and say how the attempt ended, and what is done."""

    attempt: int
    decision: str
    cause: Optional[FirstCause]
    why: str


class QueueNext(NamedTuple):
    """Queue the next link, unless it is queued."""


class WithdrawNext(NamedTuple):
    """Cancel the next link, if it is queued."""


class CloseJob(NamedTuple):
    """Write down why nothing is left to do."""

    why: str
    is_last: bool = False
    """Whether the job would go on if it had more links."""


class EndScript(NamedTuple):
    """End the script with this status."""

    status: int


ACTIONS = (
    "StartRanks", "EndStep", "AskFor", "NoteEnd", "QueueNext", "WithdrawNext", "CloseJob", "EndScript",
)  # fmt: skip


class LifeState(NamedTuple):
    """All that the machine knows of its link."""

    phase: str = LifePhase.BEGINS
    now: float = 0.0
    until: Optional[float] = None
    """When the phase is over, whatever comes."""
    attempt: int = 0
    restarts: int = 0
    """How often the ranks started again in this allocation."""
    hosts: Tuple[str, ...] = ()
    """The nodes of the ranks."""
    pool: Tuple[str, ...] = ()
    """All nodes of the job, spare nodes among them."""
    said: Tuple[int, ...] = ()
    """The ranks that said that they ended with status 0."""
    first: Optional[FirstCause] = None
    first_s: float = 0.0
    failed: Tuple[int, ...] = ()
    """The ranks whose end with another status is reported."""
    killed: Optional[FirstCause] = None
    """The first other rank that was killed before anybody of Muster could have done it."""
    outlived: Optional[FirstCause] = None
    """The first other rank that ended after SIGTERM only by SIGKILL: it was deaf, or its host was away and is back."""
    left: Optional[Tuple[int, str]] = None
    """The first rank that ended with status 0 while no rank had failed, and its host."""
    status: int = 0
    told: int = 0
    saved: str = ""
    saved_s: float = 0.0
    signature: str = ""
    """The error of the attempt before."""
    checkpoint: Optional[str] = ""
    """The newest checkpoint when the attempt began; None: that is not known, and no ranks start."""
    beside: bool = False
    is_reached: bool = False
    """Whether a step was started on the nodes while the ranks were ended: Slurm got the signals too."""
    missing: Tuple[str, ...] = ()
    """Questions without an answer."""
    asked: int = 0
    """How often they were asked again."""
    slurm: Optional[SlurmSays] = None
    dead: Tuple[str, ...] = ()
    blind: Tuple[str, ...] = ()
    """Nodes that do not see the folder of the run: they are taken last."""
    newest: Optional[str] = None
    decision: str = ""
    why: str = ""
    is_outside: bool = False
    """Whether the cause lies outside the script."""
    is_cancelled: bool = False
    over: str = ""


Result = Tuple[LifeState, Tuple[Any, ...]]
Rule = Callable[[LifeTerms, LifeState, Any], Result]
RULES: Dict[Tuple[str, type], Rule] = {}


def decide(terms: LifeTerms, state: LifeState, event: Any, now: float) -> Result:
    """Return the state after an event, and the actions that are to be done; `now` counts seconds and never falls."""
    state = state._replace(now=max(state.now, now))
    is_over = state.until is not None and state.now >= state.until
    if isinstance(event, TimePassed) and not is_over:
        return state, ()
    rule = RULES.get((state.phase, type(event)))
    return (state, ()) if rule is None else rule(terms, state, event)


def _rule(event: type, *phases: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for phase in phases:
            RULES[phase, event] = function
        return function

    return enter


# The beginning of a link


@_rule(LinkBegins, LifePhase.BEGINS)
def begin_rule(terms: LifeTerms, state: LifeState, event: LinkBegins) -> Result:
    """Start the ranks, unless nothing is left to do; where the end of the link before is not known, ask Slurm."""
    state = state._replace(attempt=event.attempt, pool=event.hosts, checkpoint=event.checkpoint)
    if event.over:
        return _idle(state, event.over)
    if terms.checkpoints and event.idle_links >= IDLE_LINKS and not event.has_begun:
        return _end_idle(state, _NO_PROGRESS)
    is_known = terms.link < 2 or event.has_begun or event.before in ("next", "saved")
    if event.before and not is_known:
        return _close_idle(state, "the script is done" if event.before == "done" else "the link before ended by itself")
    if state.told:
        return told_between(terms, state, ToldToEnd(state.told))
    if is_known:
        return _begin_link(terms, state)
    return state._replace(phase=LifePhase.LOOKS_BACK, until=state.now + ANSWER_S), (AskFor("link before"),)


@_rule(LinkBefore, LifePhase.LOOKS_BACK)
def look_back(terms: LifeTerms, state: LifeState, event: LinkBefore) -> Result:
    """Go on where the last job was ended from outside, or is forgotten; close where it was cancelled or failed."""
    if event.state in _NOT_OVER:
        return state, ()
    if event.state in ("", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "COMPLETED"):
        return _begin_link(terms, state)
    return _close_idle(state, "the job of the link before is " + event.state)


@_rule(TimePassed, LifePhase.LOOKS_BACK)
def look_back_later(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """Ask Slurm again, for a while: then the next link asks, and this one does nothing."""
    if state.asked < BUSY_S // ANSWER_S:
        return state._replace(asked=state.asked + 1, until=state.now + ANSWER_S), (AskFor("link before"),)
    state, actions = _idle(state, "how the link before ended is not known")
    return state, ((QueueNext(),) if terms.link < terms.links else ()) + actions


@_rule(ToldToEnd, LifePhase.LOOKS_BACK, LifePhase.JUDGES, LifePhase.AWAITS)
def told_between(terms: LifeTerms, state: LifeState, event: ToldToEnd) -> Result:
    """End without another start of the ranks: the job was told to end."""
    return _close(terms, state._replace(told=event.status), "end", "the job was told to end", is_outside=True)


def _idle(state: LifeState, why: str) -> Result:
    return state._replace(phase=LifePhase.OVER, until=None, why=why), (EndScript(0),)


def _close_idle(state: LifeState, why: str) -> Result:
    state, actions = _idle(state, why)
    return state, (CloseJob(why), WithdrawNext(), *actions)


def _end_idle(state: LifeState, why: str) -> Result:
    state, _ = _idle(state._replace(decision="end", status=1), why)
    return state, (CloseJob(why), WithdrawNext(), NoteEnd(state.attempt, "end", FirstCause("idle"), why), EndScript(1))


def _begin_link(terms: LifeTerms, state: LifeState) -> Result:
    queue = (QueueNext(),) if terms.link < terms.links else ()
    if len(state.pool) < terms.nodes:
        reason = "%d nodes are left, and the ranks need %d" % (len(state.pool), terms.nodes)
        state, actions = _close(terms, state._replace(status=1), "end", reason, is_outside=False)
        return state, queue + actions
    if state.checkpoint is None:
        state, actions = _close(terms, state, "end", "the newest checkpoint is not known", is_outside=True)
        return state, queue + actions
    state, actions = _start(terms, state)
    return state, queue + actions


def _start(terms: LifeTerms, state: LifeState) -> Result:
    hosts = tuple(host for host in state.pool if host not in state.dead)[: terms.nodes]
    state = LifeState(
        phase=LifePhase.RUNS,
        now=state.now,
        attempt=state.attempt,
        restarts=state.restarts,
        hosts=hosts,
        pool=state.pool,
        told=state.told,
        signature=state.signature,
        checkpoint=state.checkpoint,
        beside=state.beside,
        blind=state.blind,
    )
    return state, (StartRanks(state.attempt, hosts, state.checkpoint or "", state.beside),)


# While the ranks run


@_rule(RankEnded, LifePhase.RUNS)
def rank_ended(terms: LifeTerms, state: LifeState, event: RankEnded) -> Result:
    """Count a rank that ended well; the first that failed is the cause, and the others are ended."""
    if event.status == 0:
        return ranks_left(terms, state, RanksLeft((event.rank,), event.host))
    state = state._replace(failed=_with(state.failed, event.rank, *event.others))
    return _end_step(terms, state, _cause_of(state, event))


def _cause_of(state: LifeState, event: RankEnded) -> FirstCause:
    if lost_connection(event.words) and state.left is not None:
        # Who ends well in the middle of a collective is found by the errors of the others.
        return FirstCause("rank", state.left[0], state.left[1], 0, "it ended while other ranks still worked with it")
    return FirstCause("rank", event.rank, event.host, event.status, event.words)


@_rule(RanksLeft, LifePhase.RUNS, LifePhase.ENDS_STEP)
def ranks_left(terms: LifeTerms, state: LifeState, event: RanksLeft) -> Result:
    """Count the ranks that ended well; the first may be the cause of a failure that comes after it."""
    first_left = state.left or ((event.ranks[0], event.host) if state.phase == LifePhase.RUNS else None)
    return state._replace(said=_with(state.said, *event.ranks), left=first_left), ()


@_rule(EndsCounted, LifePhase.RUNS)
def ends_counted(terms: LifeTerms, state: LifeState, event: EndsCounted) -> Result:
    """Believe the 0 of the program that started the ranks."""
    return state._replace(said=tuple(range(terms.ranks))), ()


@_rule(StepFails, LifePhase.RUNS)
def step_fails(terms: LifeTerms, state: LifeState, event: StepFails) -> Result:
    """End the step; which rank it was may be told later."""
    kind = "memory" if event.words else ""
    return _end_step(terms, state, FirstCause(kind, host=event.host, status=event.status, words=event.words))


@_rule(StepFails, LifePhase.ENDS_STEP)
def step_fails_late(terms: LifeTerms, state: LifeState, event: StepFails) -> Result:
    """The memory is the cause: Slurm counted that of a whole node, so no rank failed first."""
    was_killed = state.first is not None and state.first.kind != "hang" and state.first.status in (0, 1, 137)
    if not event.words or not was_killed:
        return state, ()
    return state._replace(first=FirstCause("memory", status=event.status, words=event.words)), ()


@_rule(EndsUnknown, LifePhase.ENDS_STEP)
def ends_unknown(terms: LifeTerms, state: LifeState, event: EndsUnknown) -> Result:
    """A part of the work may be missing: that is a failure of that host's ranks."""
    if state.told or _is_to_end(state) or (state.first is not None and state.first.kind == "hang"):
        return state, ()
    return state._replace(first=FirstCause("unsaid", host=event.host, words=event.words), first_s=state.now), ()


@_rule(NodeFailed, LifePhase.RUNS)
def node_failed(terms: LifeTerms, state: LifeState, event: NodeFailed) -> Result:
    """The node is the cause, and the ranks of the others are ended."""
    return _end_step(terms, state, FirstCause("node", host=event.host, words=event.words))


@_rule(HangSeen, LifePhase.RUNS)
def hang_rule(terms: LifeTerms, state: LifeState, event: HangSeen) -> Result:
    """The hang is the cause, and the ranks are ended so that they can start again; where they may not, they stay."""
    if terms.restarts == 0 or state.told or _is_to_end(state):
        return state, ()
    return _end_step(terms, state, FirstCause("hang", words=event.reason))


def _end_step(terms: LifeTerms, state: LifeState, cause: FirstCause) -> Result:
    first = state.first if state.told or _is_to_end(state) else cause
    state = state._replace(phase=LifePhase.ENDS_STEP, first=first, first_s=state.now, until=state.now + terms.grace_s)
    return state, (EndStep("TERM"),)


@_rule(RanksSave, LifePhase.RUNS, LifePhase.ENDS_STEP)
def saving_rule(terms: LifeTerms, state: LifeState, event: RanksSave) -> Result:
    """Note why; an attempt that saves because the job is to end is not started again."""
    return state._replace(saved=state.saved if _is_to_end(state) else event.reason, saved_s=state.now), ()


@_rule(ToldToEnd, LifePhase.RUNS, LifePhase.ENDS_STEP)
def told_rule(terms: LifeTerms, state: LifeState, event: ToldToEnd) -> Result:
    """Note that the job is to end: nothing that the ranks do is a failure now. Ask why, while there is time."""
    return state._replace(told=event.status), ((AskFor("output"),) if terms.link else ())


@_rule(OutputSays, LifePhase.RUNS, LifePhase.ENDS_STEP)
def reason_early(terms: LifeTerms, state: LifeState, event: OutputSays) -> Result:
    """Close at once where the job was cancelled: the script may be killed before its ranks have ended."""
    if not event.is_cancelled or event.over:
        return state, ()
    return state, (CloseJob("the job was cancelled"), WithdrawNext())


@_rule(StepWaits, LifePhase.RUNS)
def step_waits(terms: LifeTerms, state: LifeState, event: StepWaits) -> Result:
    """Bound the wait: the step of an attempt before may stand on a dead node for ever."""
    if terms.is_shared or state.until is not None:
        return state, ()
    return state._replace(until=state.now + BUSY_S), ()


@_rule(TimePassed, LifePhase.RUNS)
def busy_too_long(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """Give the step up that did not begin."""
    return _end_step(terms, state, FirstCause("", words="Slurm starts no step on the nodes of the job"))


@_rule(RankEnded, LifePhase.ENDS_STEP)
def rank_ended_late(terms: LifeTerms, state: LifeState, event: RankEnded) -> Result:
    """Count a rank that ended well; what fails now was ended, or fails of the first failure."""
    if event.status == 0:
        return ranks_left(terms, state, RanksLeft((event.rank,), event.host))
    first = state.first
    if first is not None and first.kind == "" and not first.words:
        # An agent, or mpirun, had failed; this is the rank.
        state = state._replace(first=_cause_of(state, event))
    elif first is not None and (first.kind, first.rank, first.words) == ("rank", event.rank, ""):
        # What it wrote last is read when all have ended.
        state = state._replace(first=_cause_of(state, event))
    elif first is not None and first.kind == "rank" and lost_connection(first.words):
        # A rank that ends slowly is heard of after the one that missed it.
        is_own = bool(event.words) and not lost_connection(event.words)
        state = state._replace(first=_cause_of(state, event)) if is_own else state
    if event.status == 137 and first is not None and first.rank != event.rank:
        killed = FirstCause("rank", event.rank, event.host, 137, event.words)
        if state.now < state.first_s + terms.grace_s - KILL_EARLY_S:
            # Nobody has sent SIGKILL yet: this may be the peer that the others lost.
            state = state._replace(killed=state.killed or killed)
        else:
            state = state._replace(outlived=state.outlived or killed)
    if state.killed is not None and state.first is not None and state.first.kind == "rank":
        state = state._replace(first=state.killed if lost_connection(state.first.words) else state.first)
    return state._replace(failed=_with(state.failed, event.rank, *event.others)), ()


@_rule(NodeFailed, LifePhase.ENDS_STEP)
def node_failed_late(terms: LifeTerms, state: LifeState, event: NodeFailed) -> Result:
    """The node is the cause of a lost connection, and of an end by a signal."""
    is_ended = state.first is not None and state.first.status in (137, 143) and state.now <= state.first_s + NEAR_S
    is_of_node = state.first is not None and (is_ended or _may_be_of_node(state.first, (event.host,)))
    return (state._replace(first=FirstCause("node", host=event.host, words=event.words)) if is_of_node else state), ()


@_rule(TimePassed, LifePhase.ENDS_STEP)
def end_step_harder(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """SIGKILL to the step after the grace time, then to the program that started it; at last go on without its word."""
    tried = state.missing
    if "KILL" not in tried:
        state = state._replace(missing=("KILL",), until=state.now + ANSWER_S)
        return state, (EndStep("KILL"), AskFor("nodes", state.hosts))
    if "starter" not in tried:
        return _end_starter(state)
    return step_ended(terms, state, StepEnded(137))


@_rule(NodesSay, LifePhase.ENDS_STEP)
def nodes_say_early(terms: LifeTerms, state: LifeState, event: NodesSay) -> Result:
    """End the program that started the ranks where a node starts no step: it would wait until Slurm says so."""
    state = state._replace(is_reached=True)
    if not event.dead or "starter" in state.missing:
        return state, ()
    return _end_starter(state)


def _end_starter(state: LifeState) -> Result:
    # Slurm may keep the step, and starts no other on its nodes but beside it.
    state = state._replace(missing=("KILL", "starter"), until=state.now + ANSWER_S, beside=True)
    return state, (EndStep("starter"),)


# The end of an attempt


@_rule(StepEnded, LifePhase.RUNS, LifePhase.ENDS_STEP)
def step_ended(terms: LifeTerms, state: LifeState, event: StepEnded) -> Result:
    """It ended well only where each rank said so. Otherwise ask Slurm and the nodes, then the disk, and judge."""
    state = state._replace(status=event.status, missing=(), until=None)
    if event.status == 0 and state.first is None:
        if len(state.said) == terms.ranks:
            return _ended_well(terms, state)
        silent = terms.ranks - len(state.said)
        words = "%d of %d ranks did not say that they ended" % (silent, terms.ranks)
        state = state._replace(status=1, first=FirstCause("", words=words))
    state = state._replace(status=state.status or 1)
    if state.first is None and not state.told and not _is_to_end(state):
        state = state._replace(first=FirstCause("", status=state.status))
    if state.told or _is_to_end(state):
        reason = "the job was told to end" if state.told else "the ranks were told to save (%s)" % state.saved
        return _close(terms, state, "end", reason, is_outside=True)
    state = state._replace(phase=LifePhase.JUDGES, until=state.now + ANSWER_S, missing=("Slurm", "nodes"))
    return state, (AskFor("Slurm"), AskFor("nodes", state.hosts))


def _ended_well(terms: LifeTerms, state: LifeState) -> Result:
    if _is_to_end(state):
        return _close(terms, state, "saved", "the ranks were told to save (%s)" % state.saved, is_outside=True)
    if terms.link and state.saved and state.now <= state.saved_s + SAVE_S:
        return _close(terms, state, "saved", "a signal had reached the ranks", is_outside=True)
    return _close(terms, state, "done", "the script is done", is_outside=False)


@_rule(SlurmSays, LifePhase.JUDGES)
def slurm_says(terms: LifeTerms, state: LifeState, event: SlurmSays) -> Result:
    """Keep the answer; judge when it was the last that is missing. A job that is suspended is asked for again."""
    if event.state in _STANDING:
        return state, ()
    return _answered(terms, state._replace(slurm=event), "Slurm")


@_rule(NodesSay, LifePhase.JUDGES)
def nodes_say(terms: LifeTerms, state: LifeState, event: NodesSay) -> Result:
    """Keep the answer; judge when it was the last that is missing."""
    return _answered(terms, state._replace(dead=event.dead, blind=event.blind), "nodes")


@_rule(Newest, LifePhase.JUDGES)
def newest_is(terms: LifeTerms, state: LifeState, event: Newest) -> Result:
    """Keep the answer; judge when it was the last that is missing."""
    return _answered(terms, state._replace(newest=event.checkpoint), "disk")


def _answered(terms: LifeTerms, state: LifeState, of: str) -> Result:
    state = state._replace(missing=tuple(question for question in state.missing if question != of))
    if state.missing:
        return state, ()
    if terms.checkpoints and state.newest is None:
        # The disk is asked last: an answer of minutes ago may name a checkpoint that was torn since.
        return state._replace(until=state.now + ANSWER_S, missing=("disk",)), (AskFor("disk"),)
    return _judge(terms, state)


@_rule(TimePassed, LifePhase.JUDGES)
def ask_again(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """Ask again what has no answer: ranks of the attempt before may still run, or a newer checkpoint be there."""
    if state.asked >= BUSY_S // ANSWER_S:
        return _close(terms, state, "end", "nobody answers: %s" % ", ".join(state.missing), is_outside=True)
    state = state._replace(asked=state.asked + 1, until=state.now + ANSWER_S)
    return state, tuple(AskFor(of, state.hosts if of == "nodes" else ()) for of in state.missing)


def _judge(terms: LifeTerms, state: LifeState) -> Result:
    """Start the ranks again, take spare nodes, wait until Slurm ends the job, or end it: by all answers."""
    lost = _lost(state)
    if lost and state.first is not None and _may_be_of_node(state.first, lost):
        state = state._replace(first=FirstCause("node", host=lost[0]))
    silent = [rank for rank in range(terms.ranks) if rank not in state.said + state.failed]
    hears = terms.hears_all and state.first is not None and state.first.kind == "rank"
    if not lost and silent and hears and state.first is not None and lost_connection(state.first.words):
        # Its slurmstepd is gone, and nobody else reports its end; or Slurm got no signal, and the srun was killed.
        is_gone = state.is_reached or not state.beside
        state = state._replace(first=FirstCause("rank", silent[0], words="nobody reports its end") if is_gone else None)
    elif not lost and state.outlived is not None and state.first is not None and lost_connection(state.first.words):
        first, other = state.first, state.outlived
        words = "rank %s on %s lost a connection (%s), and rank %s on %s ended only by SIGKILL"
        words %= (first.rank, first.host, first.words, other.rank, other.host)
        state = state._replace(first=FirstCause("", words=words) if first.kind == "rank" else first)
    if state.slurm is not None and state.slurm.is_preempted:
        # The ranks and daemons that ended did so of Slurm's SIGTERM, which the script itself need not have had.
        by_slurm = state.first is not None and (state.first.status == 143 or (state.first.kind == "node" and not lost))
        state = state._replace(first=None) if by_slurm else state
        return _close(terms, state, "end", "the job was preempted", is_outside=True)
    if lost and not terms.spares:
        return state._replace(phase=LifePhase.AWAITS, until=state.now + LOST_S, dead=lost), ()
    reason = _stays(state.status, state.first.words if state.first else "")
    if reason:
        return _close(terms, state, "end", reason, is_outside=False)
    if state.slurm is not None and state.slurm.state not in ("RUNNING", ""):
        return _close(terms, state, "end", "the job itself ends (%s)" % state.slurm.state, is_outside=True)
    if state.slurm is not None and state.slurm.is_late:
        return _close(terms, state, "end", "the time limit was reached", is_outside=True)
    signature = signature_of(state)
    is_new = state.newest is not None and state.newest != state.checkpoint
    if signature == state.signature and not is_new and not lost:
        reason = "the same first error came twice, and no new checkpoint in between"
        return _close(terms, state, "end", reason, is_outside=False)
    if state.restarts >= terms.restarts:
        return _close(terms, state, "end", "that was allowed %d times" % terms.restarts, is_outside=bool(lost))
    listed = (state.slurm.hosts if state.slurm else ()) or state.pool
    # Slurm may list a node that was lost before for as long as SlurmdTimeout: it is the last to be taken.
    ordered = sorted(listed, key=lambda host: state.pool.index(host) if host in state.pool else len(state.pool))
    ordered.sort(key=lambda host: host in state.blind)
    pool = tuple(host for host in ordered if host not in lost)
    if len(pool) < terms.nodes:
        reason = "%d nodes are left, and the ranks need %d" % (len(pool), terms.nodes)
        return _close(terms, state, "end", reason, is_outside=True)
    note = NoteEnd(state.attempt, "again", state.first, "the same ranks start again")
    state, actions = _start(
        terms,
        state._replace(
            attempt=state.attempt + 1,
            restarts=state.restarts + 1,
            pool=pool,
            dead=(),
            blind=tuple(host for host in state.blind if host not in lost),
            signature=signature,
            checkpoint=state.checkpoint if state.newest is None else state.newest,
            beside=state.beside or bool(lost),
        ),
    )
    return state, (note, *actions)


@_rule(TimePassed, LifePhase.AWAITS)
def awaited(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """End: Slurm did not end the job, whose node starts no step."""
    return _close(terms, state, "end", "%s starts no step" % state.dead[0], is_outside=True)


# The end of a link


def _close(terms: LifeTerms, state: LifeState, decision: str, why: str, *, is_outside: bool) -> Result:
    has_looked = decision == "end" and not is_outside
    if not has_looked and state.first is not None and lost_connection(state.first.words):
        # The peer that was lost is the cause, or what ends the job: nobody has looked which.
        state = state._replace(first=None)
    state = state._replace(decision=decision, why=why, is_outside=is_outside, until=None, missing=())
    if not terms.link:
        return _over(state, ())
    state = state._replace(phase=LifePhase.CLOSES, until=state.now + ANSWER_S)
    return state, (AskFor("output"),)


@_rule(OutputSays, LifePhase.CLOSES)
def reason_is(terms: LifeTerms, state: LifeState, event: OutputSays) -> Result:
    """Leave the rest to the next link, or close: after success, failure, cancellation, and the last link."""
    return end_link(terms, state._replace(is_cancelled=event.is_cancelled, over=event.over), TimePassed())


@_rule(ToldToEnd, LifePhase.BEGINS, LifePhase.CLOSES)
def told_outside(terms: LifeTerms, state: LifeState, event: ToldToEnd) -> Result:
    """Note that the job is to end: no ranks start at its beginning, and a script that was done stays done."""
    return state._replace(told=event.status), ()


@_rule(TimePassed, LifePhase.CLOSES)
def end_link(terms: LifeTerms, state: LifeState, event: TimePassed) -> Result:
    """The output cannot be read: leave the rest to the next link, or close, by what is known."""
    if state.over:
        return _over(state, (WithdrawNext(),))
    if state.saved == "cancel" or (state.is_cancelled and state.decision != "done"):
        return _over(state, (CloseJob("the job was cancelled"), WithdrawNext()))
    if not state.is_outside:
        return _over(state, (CloseJob(state.why), WithdrawNext()))
    if terms.link >= terms.links:
        close = CloseJob("link %d of %d was the last" % (terms.link, terms.links), is_last=True)
        return _over(state, (close,), status_of_saved=LEFT_UNDONE)
    decision = state.decision if state.decision == "saved" else "next"
    return _over(state._replace(decision=decision), (QueueNext(),))


def _over(state: LifeState, actions: Tuple[Any, ...], status_of_saved: int = 0) -> Result:
    failed = state.told or state.status or 1
    status = {"done": state.status, "saved": status_of_saved}.get(state.decision, failed)
    note = NoteEnd(state.attempt, state.decision, state.first, state.why)
    return state._replace(phase=LifePhase.OVER, until=None), (note, *actions, EndScript(status))


# What the words and the values mean


def _with(ranks: Tuple[int, ...], *more: int) -> Tuple[int, ...]:
    return tuple(sorted({*ranks, *more}))


def _is_to_end(state: LifeState) -> bool:
    return state.saved not in ("", "asked")


def _lost(state: LifeState) -> Tuple[str, ...]:
    """Return the nodes of the ranks that start no step, or that Slurm has taken out of the job."""
    listed = state.slurm.hosts if state.slurm is not None else ()
    return tuple(host for host in state.hosts if host in state.dead or (listed and host not in listed))


def lost_connection(words: str) -> bool:
    """Return whether an error tells of a peer that has gone."""
    return bool(re.search("[Cc]onnect|BrokenPipe|[Pp]eer|NCCL|imed out|nreachable", words))


def _may_be_of_node(cause: FirstCause, hosts: Sequence[str]) -> bool:
    """Return whether a failure of one of the nodes explains a cause."""
    if cause.kind == "node" or (cause.kind == "rank" and cause.status == 0):
        return False
    is_of_place = cause.kind == "rank" or (cause.kind == "" and cause.host)
    return not is_of_place or cause.host in hosts or lost_connection(cause.words)


_STAYING = (
    (r"^(126|127):", "there is no such program"),
    (r"ModuleNotFoundError:|ImportError:", "a module that is missing would be missing again"),
    (r"FileNotFoundError:|^2:.*can't open file", "a file that is missing would be missing again"),
    (r"SyntaxError:|IndentationError:|TabError:", "an error of syntax stays one"),
    (r"^2:.*(usage:|: error: )", "an error of usage stays one"),
)


def _stays(status: int, words: str) -> str:
    """Return why the same error would come again; empty: it may not."""
    text = "%d:%s" % (status, words)
    if re.search("muster: error: (port|the node) ", text):
        return ""  # Another port is taken; the node may see the shared folder again.
    return next((why for pattern, why in _STAYING if re.search(pattern, text)), "")


def signature_of(state: LifeState) -> str:
    """Return what makes two failures the same: the status and the error without its numbers, or else the rank."""
    first = state.first or FirstCause("")
    words = re.sub("[0-9]+", "0", first.words)
    place = "" if words or state.status <= 128 else ":%s:%s" % (first.host, first.rank)
    return "%d:%s:%s%s" % (state.status, first.kind, words, place)
