"""Two looks at every rank → what the job does: it works, it waits for one rank, or it hangs, and where. Pure.

Long: the thresholds, the order of the verdicts and their remedies are read together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from muster_check.stacks.condition import JobCondition, standing
from muster_check.stacks.fold import UNKNOWN_LINE, Group, collective_of, fold, ranks_in_words, user_frame
from muster_check.stacks.move import REST_BYTES_PER_S, REST_CPU, Doing, Movement, movements
from muster_check.stacks.read import Frame, ProgramOfRank, RankStack, Round, of_role, roles_in


class Verdict(msgspec.Struct, frozen=True):
    """What a person is told."""

    kind: JobCondition
    sentence: str
    ranks: tuple[int, ...] = ()
    """Whom the others wait for."""

    host: str = ""
    where: Frame | None = None
    unseen: str = ""
    """Why the line is not known; empty where the line is known, or says nothing."""

    others_wait: bool = False
    """Whether one rank stands by itself, and others wait for it in a collective."""

    role: str = ""
    """Of a job of several programs: the one whose ranks these are."""

    @property
    def is_hang(self) -> bool:
        """Return whether no rank goes on."""
        return self.kind.is_hang

    @property
    def remedy(self) -> str:
        """Return what to do about a hang."""
        rank = f" --role {self.role}" * bool(self.role) + (f" --rank {self.ranks[0]}" if self.ranks else "")
        if self.unseen and self.kind not in _TOLD_BY_THE_KERNEL:
            return f"{UNKNOWN_LINE}: start the job with --stacks-ready, and its ranks show their lines by themselves"
        look = "look at that line" + ": the other ranks wait until this one comes" * self.others_wait
        return _REMEDIES.get(self.kind, look).format(host=self.host or "the node", rank=rank)


_REMEDIES = {
    JobCondition.NODE: "{host} is down, cut off or very slow: with --restart or --spares the job goes on by itself; "
    "without them, if it stays so, cancel it, and submit it with --exclude {host}",
    JobCondition.GONE: "it has ended, and the others do not know: muster logs{rank} shows its last lines",
    JobCondition.STOPPED: "a process was sent SIGSTOP: kill -CONT PID on {host} lets it go on",
    JobCondition.DEBUGGER: "remove the breakpoint: nobody can type there",
    JobCondition.FILE_SYSTEM: "the file system on {host} does not answer: tell the site, it is not your script",
    JobCondition.LOADER: "look at the data set: with num_workers=0 the line that waits is shown",
    JobCondition.CHILD: "look at the program that this line starts: does it end when you start it by hand?",
    JobCondition.LOCK: "look who holds the lock: muster stacks --full shows every thread",
    JobCondition.FILE_LOCK: "look which process on {host} holds the lock: lsof FILE; or remove a lock that was left",
    JobCondition.ORDER: "let every rank call the same collectives in one order: look for one in an if, or a batch less",
    JobCondition.ROLES: "look at the line of each role: which role waits for which is not known",
    JobCondition.COLLECTIVE: "compare the shapes of the tensors on all ranks; muster check looks at the network",
}

# What to do about these needs no line.
_TOLD_BY_THE_KERNEL = frozenset(
    {
        JobCondition.NODE,
        JobCondition.GONE,
        JobCondition.STOPPED,
        JobCondition.DEBUGGER,
        JobCondition.FILE_SYSTEM,
        JobCondition.FILE_LOCK,
    }
)


def judge(
    rounds: Sequence[Round], size: int, *, silent_nodes: Sequence[str] = (), silent_ranks: Sequence[int] = ()
) -> Verdict:
    """Return what the job does between the first look and the last."""
    moved = movements(rounds) if rounds else ()
    if silent_nodes:
        return _silent(silent_nodes, silent_ranks, moved)
    programs = rounds[-1].programs if rounds else ()
    if not moved and programs:
        sentence = f"{programs_in_words(programs)}: whether its work goes on cannot be seen"
        return Verdict(JobCondition.NO_PYTHON, sentence, tuple(program.rank for program in programs))
    if not moved:
        return Verdict(JobCondition.STARTS, f"{NO_RANK}: its ranks have not started, or nothing gives them one")
    stands = any(each.doing is Doing.RESTS for each in moved)
    busy = [each for each in moved if each.goes_on or (each.doing is Doing.CALLS and not stands)]
    if busy:
        return _working(moved, busy)
    verdict = _hanging(moved, size, programs)
    if not programs:
        return verdict
    sentence = f"{verdict.sentence}; {programs_in_words(programs)}: whether its work goes on cannot be seen"
    return msgspec.structs.replace(verdict, kind=JobCondition.NO_PYTHON, sentence=sentence)


NO_RANK = "no process of the job has the variable RANK"


def programs_in_words(programs: Sequence[ProgramOfRank]) -> str:
    """Return which ranks do not run Python, and what they run: "ranks 0-3 run sleep, which is not Python"."""
    names = sorted({program.name for program in programs})
    verb = "runs" if len(programs) == 1 else "run"
    ranks = ranks_in_words([program.rank for program in programs])
    return f"{ranks} {verb} {', '.join(names)}, which is not Python"


def programs_of_roles(programs: Sequence[ProgramOfRank]) -> str:
    """Return the same of each role of a job of several programs."""
    roles = roles_in((Round((), frozenset(), programs=tuple(programs)),))
    words = {role: programs_in_words([each for each in programs if each.role == role]) for role in roles}
    return "; ".join(f"role {role}: {text}" if role else text for role, text in words.items())


def judge_job(rounds: Sequence[Round], nodes: Sequence[str]) -> Verdict:
    """Return what a job does on these nodes: one that did not even begin to answer is named, a slow one is not."""
    begun = frozenset(node for each in rounds for node in (each.begun | each.nodes))
    whole = [each for each in rounds if each.nodes >= begun]
    silent = [name for number, name in enumerate(nodes) if number not in begun]
    verdicts: dict[str, Verdict] = {}
    for role in roles_in((whole or rounds)[-1:]):
        own = [of_role(each, role) for each in rounds]
        size = max((stack.size for each in own for stack in each.stacks), default=0)
        present = {one.rank for each in own for one in each.ranks}
        missing = sorted(set(range(size)) - present) if silent else []
        # The ranks of a role are a world of their own, and not all nodes have one of them.
        nodes_of_role = silent if missing or not role else []
        own_whole = [of_role(each, role) for each in whole]
        verdicts[role] = judge(own_whole or own, size if whole else 0, silent_nodes=nodes_of_role, silent_ranks=missing)
    return verdicts[""] if "" in verdicts else _of_roles(verdicts, silent)


def _of_roles(verdicts: Mapping[str, Verdict], silent: Sequence[str]) -> Verdict:
    """Return one verdict of all roles, whose sentence tells of each: the job hangs where none of them goes on."""
    sentences = [f"role {role}: {verdict.sentence}" for role, verdict in verdicts.items()]
    named = [msgspec.structs.replace(verdict, role=role) for role, verdict in verdicts.items()]
    if silent and not any(verdict.kind is JobCondition.NODE for verdict in named):
        named.append(_silent(silent, (), ()))
        sentences.insert(0, named[-1].sentence)
    first = min(named, key=_order_of_roles)
    if first.is_hang and not _is_sure(first):
        return Verdict(JobCondition.ROLES, "; ".join(sentences))
    return msgspec.structs.replace(first, sentence="; ".join(sentences))


def _order_of_roles(verdict: Verdict) -> tuple[bool, ...]:
    """Return what puts first the role of which most is known; a role that goes on may be what another waits for."""
    kind = verdict.kind
    is_unknown = kind is JobCondition.NO_PYTHON
    hang = (kind not in _TOLD_BY_THE_KERNEL, not verdict.others_wait, not _is_sure(verdict))
    return (kind is not JobCondition.NODE, verdict.is_hang, is_unknown, *hang)


def _is_sure(verdict: Verdict) -> bool:
    """Return whether a role hangs by itself: ranks that only stand may wait for another role."""
    in_collectives = verdict.kind in {JobCondition.ORDER, JobCondition.COLLECTIVE}
    return in_collectives or verdict.others_wait or verdict.kind in _TOLD_BY_THE_KERNEL


def _working(moved: Sequence[Movement], busy: Sequence[Movement]) -> Verdict:
    waiting = [each for each in moved if each.doing is Doing.WAITS]
    compiling = [each for each in busy if each.doing is Doing.COMPILES]
    numbers = tuple(sorted(each.stack.rank for each in busy))
    kind = JobCondition.COMPILES if compiling else JobCondition.WORKS
    share = "" if len(busy) == len(moved) else f" of {len(moved)}"
    what = _what(busy)
    if waiting:
        doing = "compiles" if compiling else "works"
        first = busy[0].stack
        subject = _who([each.stack for each in busy])
        verb = doing if len(busy) == 1 else doing.removesuffix("s")
        waits = "wait" if len(waiting) > 1 else "waits"
        wait = f"{_count(len(waiting), 'rank')} {waits} in {collective_of(waiting[0].stack)}"
        sentence = f"{subject} {verb}{_at(user_frame(first), ' at ')} ({what}); {wait} meanwhile"
        return Verdict(kind, sentence, numbers, first.host, user_frame(first))
    is_idle = all(each.cpu <= REST_CPU and each.bytes_per_s <= REST_BYTES_PER_S for each in busy)
    verb = "it compiles" if compiling else "it goes on, with hardly any work" if is_idle else "it works"
    unseen = busy[0].stack.unseen
    # A loop that never ends uses a core too: only its line tells it from work.
    if all(each.stack.unseen and each.doing is Doing.MOVES for each in busy):
        sentence = f"it runs: {_count(len(busy), 'rank')}{share} {what}; work and an endless loop look alike"
        return Verdict(kind, f"{sentence}, since {UNKNOWN_LINE}: {unseen}", unseen=unseen)
    return Verdict(kind, f"{verb}: {_count(len(busy), 'rank')}{share} {what}")


def _what(busy: Sequence[Movement]) -> str:
    cpu = sum(each.cpu for each in busy) / len(busy)
    rate = sum(each.bytes_per_s for each in busy)
    parts = [f"use{'s' if len(busy) == 1 else ''} {cpu:.0%} of a core{' each' if len(busy) > 1 else ''}"]
    if rate > REST_BYTES_PER_S:
        parts.append(f"{_size(rate)}/s read or written")
    return ", ".join(parts)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def _silent(nodes: Sequence[str], ranks: Sequence[int], moved: Sequence[Movement]) -> Verdict:
    verb = "does" if len(nodes) == 1 else "do"
    whose = f" ({ranks_in_words(ranks)})" if ranks else ""
    waiting = [each for each in moved if each.doing is Doing.WAITS]
    wait = "" if not waiting else (
        f"; {_count(len(waiting), 'rank')} {'wait' if len(waiting) > 1 else 'waits'} "
        f"in {collective_of(waiting[0].stack)}{_at(user_frame(waiting[0].stack), ' at ')}"
    )  # fmt: skip
    return Verdict(JobCondition.NODE, f"{', '.join(nodes)}{whose} {verb} not answer{wait}", tuple(ranks), nodes[0])


def _hanging(moved: Sequence[Movement], size: int, programs: Sequence[ProgramOfRank]) -> Verdict:
    calling = [each.stack for each in moved if each.doing is Doing.CALLS]
    groups = _groups([each.stack for each in moved if each.doing is not Doing.CALLS])
    waiting = [group for group in groups if group.in_collective]
    others = [group for group in groups if not group.in_collective]
    present = {each.stack.rank for each in moved} | {program.rank for program in programs}
    missing = sorted(set(range(size)) - present)
    spinning = {each.stack.rank for each in moved if each.doing is Doing.SPINS}
    if missing and waiting:
        return _for_the_missing(waiting, missing)
    if others:
        late = _latest(others, waiting, size)
        tail = _tail([each for each in moved if each.stack.rank in late.numbers])
        verdict = _for_the_late(late, waiting, others, missing, spinning, tail)
        calls = "".join(f"; {_calling(group)}" for group in _groups(calling)[:2])
        return msgspec.structs.replace(verdict, sentence=verdict.sentence + calls)
    return _all_wait(waiting)


def _groups(stacks: Sequence[RankStack]) -> list[Group]:
    return [part for group in fold(stacks) for part in _parts_by_state(group)]


def _tail(late: Sequence[Movement]) -> str:
    """Return what else was seen of the ranks that the others wait for."""
    again = ", again and again" * any(each.wakes for each in late)
    beside = max(each.cpu_beside for each in late)
    return again + (f", while its other threads or children use {beside:.1%} of a core" if beside else "")


def _calling(group: Group) -> str:
    runs = "runs" if len(group.ranks) == 1 else "run"
    return f"{_who(group.ranks)} {runs} in C code{_at(group.where, ' at ')}: work, or a wait for the others"


def _parts_by_state(group: Group) -> list[Group]:
    """Return the ranks of a group that show no call stack by how they stand: one may sleep, and another wait for it."""
    if not group.ranks[0].unseen:
        return [group]
    kinds = dict.fromkeys(map(standing, group.ranks))
    return [
        msgspec.structs.replace(group, ranks=tuple(rank for rank in group.ranks if standing(rank) is kind))
        for kind in kinds
    ]


def _for_the_missing(waiting: Sequence[Group], missing: Sequence[int]) -> Verdict:
    has = "has" if len(missing) == 1 else "have"
    sentence = f"{ranks_in_words(missing)} {has} no process; {_waiting(waiting)}"
    return Verdict(JobCondition.GONE, sentence, tuple(missing), "", waiting[0].where)


def _latest(others: Sequence[Group], waiting: Sequence[Group], size: int) -> Group:
    """Return the class that keeps the others waiting: the smallest; of two as large, the one that waits for nobody."""
    if waiting or len(others) == 1:
        return min(others, key=lambda group: (len(group.ranks), group.numbers))

    def order(group: Group) -> tuple[bool, int, int]:
        return len(group.ranks) > size // 2, _BY_ITSELF.index(standing(group.ranks[0])), len(group.ranks)

    return min(others, key=order)


# How a rank stands that waits for none of the others, the surest sign of it first; the last may well wait for one.
_BY_ITSELF = (
    *(
        JobCondition.STOPPED,
        JobCondition.DEBUGGER,
        JobCondition.FILE_SYSTEM,
        JobCondition.SLEEP,
        JobCondition.FILE_LOCK,
        JobCondition.CHILD,
        JobCondition.LOADER,
        JobCondition.PIPE,
    ),
    *(JobCondition.LOCK, JobCondition.STANDS, JobCondition.NETWORK),
)


def _for_the_late(
    late: Group,
    waiting: Sequence[Group],
    others: Sequence[Group],
    missing: Sequence[int],
    spinning: set[int],
    tail: str,
) -> Verdict:
    stack = late.ranks[0]
    kind = _standing_of(late, spinning)
    who = _who(late.ranks)
    verb = kind.value if len(late.ranks) == 1 else _plural(kind.value)
    rest = [group for group in others if group is not late]
    wait = f"; {_waiting(waiting)}" if waiting else "".join(f"; {_standing_too(group, spinning)}" for group in rest[:2])
    gone = f"; {ranks_in_words(missing)} {'has' if len(missing) == 1 else 'have'} no process" if missing else ""
    about = f" ({stack.signs.file})" if stack.signs.file and kind in _ABOUT_A_FILE else ""
    unseen = stack.unseen
    why = f"; {UNKNOWN_LINE}: {unseen}" if unseen else ""
    sentence = f"{who} {verb}{about}{_at(late.where, ' at ')}{tail}{wait}{gone}{why}"
    return Verdict(kind, sentence, late.numbers, stack.host, late.where, unseen, others_wait=bool(waiting))


_ABOUT_A_FILE = frozenset({JobCondition.FILE_SYSTEM, JobCondition.FILE_LOCK, JobCondition.PIPE})


def _all_wait(waiting: Sequence[Group]) -> Verdict:
    if len({(group.what, group.where) for group in waiting}) > 1:
        few = min(waiting, key=lambda group: (len(group.ranks), tuple(-number for number in group.numbers)))
        rest = [group for group in waiting if group is not few]
        verb = "is" if len(few.ranks) == 1 else "are"
        sentence = f"{_who(few.ranks)} {verb} in {few.what}{_at(few.where, ' at ')}; {_waiting(rest)}"
        return Verdict(JobCondition.ORDER, sentence, few.numbers, few.ranks[0].host, few.where)
    (group,) = waiting
    number = len(group.ranks)
    all_of = f"all {number} ranks wait" if number > 1 else "the rank waits"
    sentence = (
        f"{all_of} in {group.what}{_at(group.where, ' at ')}, and it does not end: the network, or calls that differ"
    )
    return Verdict(JobCondition.COLLECTIVE, sentence, group.numbers, group.ranks[0].host, group.where)


def _waiting(groups: Sequence[Group]) -> str:
    return "; ".join(_wait_of(group) for group in groups[:2])


def _wait_of(group: Group) -> str:
    number = len(group.ranks)
    return f"{_count(number, 'rank')} {'wait' if number > 1 else 'waits'} in {group.what}{_at(group.where, ' at ')}"


def _standing_of(group: Group, spinning: set[int]) -> JobCondition:
    return JobCondition.LOOP if group.numbers[0] in spinning else standing(group.ranks[0])


def _standing_too(group: Group, spinning: set[int]) -> str:
    kind = _standing_of(group, spinning).value
    return f"{_who(group.ranks)} {kind if len(group.ranks) == 1 else _plural(kind)}{_at(group.where, ' at ')}"


def _plural(verb: str) -> str:
    first, space, rest = verb.partition(" ")
    return {"is": "are", "has": "have", "does": "do"}.get(first, first.removesuffix("s")) + space + rest


def _who(stacks: Sequence[RankStack]) -> str:
    hosts = sorted({stack.host for stack in stacks})
    on = f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"
    return ranks_in_words([stack.rank for stack in stacks]) + on


def _at(frame: Frame | None, before: str) -> str:
    return f"{before}{frame.name}:{frame.line} ({frame.function})" if frame else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"
