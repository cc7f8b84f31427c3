"""Two looks at every rank → what the job does: it works, it waits for one rank, or it hangs, and where. Pure.

Long: the thresholds, the order of the verdicts and their remedies are read together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from muster.older import StrEnum
from muster_check.stacks.fold import (
    UNKNOWN_LINE,
    Group,
    collective_of,
    fold,
    is_implicit,
    is_user_file,
    ranks_in_words,
    user_frame,
)
from muster_check.stacks.read import Frame, ProgramOfRank, RankStack, Round

# What a rank at rest uses: its watchdogs and heartbeats.
_REST_CPU = 0.02
_CRAWL_CPU = 0.002
_REST_BYTES_PER_S = 2048
_BUSY_CPU = 0.05


class JobCondition(StrEnum):
    """What the job does, or how it hangs."""

    WORKS = "works"
    COMPILES = "compiles"
    STARTS = "starts"
    NO_PYTHON = "runs no Python"
    NODE = "its node does not answer"
    GONE = "has no process"
    STOPPED = "is stopped"
    DEBUGGER = "is in a debugger"
    FILE_SYSTEM = "waits for a file system"
    LOADER = "waits for its data loader"
    CHILD = "waits for a child process"
    LOCK = "waits for a lock"
    FILE_LOCK = "waits for the lock of a file"
    SLEEP = "sleeps"
    PIPE = "waits at a pipe"
    NETWORK = "waits for the network"
    LOOP = "runs at one line"
    ORDER = "is in another collective"
    COLLECTIVE = "is in a collective that does not end"
    STANDS = "does not go on"

    @property
    def is_hang(self) -> bool:
        """Return whether no rank goes on."""
        unhung = {JobCondition.WORKS, JobCondition.COMPILES, JobCondition.STARTS, JobCondition.NO_PYTHON}
        return self not in unhung


class Doing(StrEnum):
    """What one rank did between two looks."""

    MOVES = "moves"
    COMPILES = "compiles"
    READS = "reads or writes"
    SPINS = "runs at one line"
    WAITS = "waits in a collective"
    RESTS = "rests"


class Movement(msgspec.Struct, frozen=True):
    """What one rank did between two looks, and where it stood at the last."""

    stack: RankStack
    doing: Doing
    cpu: float
    """Cores that it used, itself and its children."""

    bytes_per_s: float

    @property
    def goes_on(self) -> bool:
        """Return whether this is progress."""
        return self.doing in {Doing.MOVES, Doing.COMPILES, Doing.READS}


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

    @property
    def is_hang(self) -> bool:
        """Return whether no rank goes on."""
        return self.kind.is_hang

    @property
    def remedy(self) -> str:
        """Return what to do about a hang."""
        rank = f" --rank {self.ranks[0]}" if self.ranks else ""
        if self.unseen and self.kind not in _TOLD_BY_THE_KERNEL:
            return f"{UNKNOWN_LINE}: start the job with --stacks-ready, and its ranks show their lines by themselves"
        return _REMEDIES.get(self.kind, _LOOK_THERE).format(host=self.host or "the node", rank=rank)


_LOOK_THERE = "look at that line: the other ranks wait until this one comes"
_REMEDIES = {
    JobCondition.NODE: "{host} is down or cut off: cancel the job, and submit it with --exclude {host}",
    JobCondition.GONE: "it has ended, and the others do not know: muster logs{rank} shows its last lines",
    JobCondition.STOPPED: "a process was sent SIGSTOP: kill -CONT PID on {host} lets it go on",
    JobCondition.DEBUGGER: "remove the breakpoint: nobody can type there",
    JobCondition.FILE_SYSTEM: "the file system on {host} does not answer: tell the site, it is not your script",
    JobCondition.LOADER: "look at the data set: with num_workers=0 the line that waits is shown",
    JobCondition.CHILD: "look at the program that this line starts: does it end when you start it by hand?",
    JobCondition.LOCK: "look who holds the lock: muster stacks --full shows every thread",
    JobCondition.FILE_LOCK: "look which process on {host} holds the lock: lsof FILE; or remove a lock that was left",
    JobCondition.ORDER: "let every rank call the same collectives in one order: look for one in an if, or a batch less",
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

_COMPILERS = re.compile(
    r"^(cc1(plus)?|nvcc|cicc|ptxas|fatbinary|ninja|gcc|g\+\+|c\+\+|clang(\+\+)?(-\d+)?|ld|as|hipcc|lld)$"
)
_COMPILING = re.compile(
    r"/torch/(_dynamo|_inductor|_functorch|utils/cpp_extension)|/triton/|/jaxlib?/.*compil|/numba/core/"
)
_DEBUGGERS = re.compile(r"/(pdb|bdb|ipdb|pudb|debugpy|rpdb|web_pdb)[/.]|/debugpy/")
_LOADERS = re.compile(r"/torch/utils/data/|/multiprocessing/(pool|queues)\.py|/concurrent/futures/process\.py")
# The kernel's function in which a process sleeps → what it waits for.
_WAITS = (
    (re.compile(r"^(fuse_|request_wait_answer|__fuse|nfs|rpc_|ll_|cl_|osc_|lustre|gpfs|cxi|ceph|beegfs|"
                r"folio_wait|io_schedule|wait_on_page|filemap|d_alloc_parallel|lookup_slow|blkdev|jbd2|xfs_|ext4_)"),
     JobCondition.FILE_SYSTEM),
    (re.compile(r"lock_(inode_wait|lease)|flock|posix_lock|fcntl_setlk|locks_"), JobCondition.FILE_LOCK),
    (re.compile(r"pipe|fifo|wait_for_partner"), JobCondition.PIPE),
    (re.compile(r"^(kernel_)?(do_wait|wait4|waitid)|vfork"), JobCondition.CHILD),
    (re.compile(r"nanosleep"), JobCondition.SLEEP),
    (re.compile(r"sk_|skb_|tcp_|inet_|unix_|accept"), JobCondition.NETWORK),
    (re.compile(r"futex"), JobCondition.LOCK),
)  # fmt: skip


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
    busy = [each for each in moved if each.goes_on]
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


def judge_job(rounds: Sequence[Round], nodes: Sequence[str]) -> Verdict:
    """Return what a job does on these nodes: one that did not even begin to answer is named, a slow one is not."""
    begun = frozenset(node for each in rounds for node in (each.begun | each.nodes))
    whole = [each for each in rounds if each.nodes >= begun]
    size = max((stack.size for each in rounds for stack in each.stacks), default=0)
    silent = [name for number, name in enumerate(nodes) if number not in begun]
    present = {stack.rank for each in rounds for stack in each.stacks}
    present |= {program.rank for each in rounds for program in each.programs}
    missing = sorted(set(range(size)) - present) if silent else []
    return judge(whole or rounds, size if whole else 0, silent_nodes=silent, silent_ranks=missing)


def movements(rounds: Sequence[Round]) -> tuple[Movement, ...]:
    """Return what each rank of the last look has done since the first."""
    first, last = rounds[0], rounds[-1]
    before = {(stack.rank, stack.host, stack.pid): stack for stack in first.stacks}
    seconds = max(last.at_s - first.at_s, 0.05)
    return tuple(_movement(stack, before, rounds, seconds) for stack in last.stacks)


def _movement(
    stack: RankStack, before: dict[tuple[int, str, int], RankStack], rounds: Sequence[Round], seconds: float
) -> Movement:
    key = (stack.rank, stack.host, stack.pid)
    old = before.get(key)
    if old is None or len(rounds) == 1:  # a process that was not there has begun in between
        return Movement(stack, Doing.RESTS if len(rounds) == 1 else Doing.MOVES, 0.0, 0.0)
    cpu = max(stack.signs.cpu_s - old.signs.cpu_s, 0.0) / seconds
    seen = [each for look in rounds for each in look.stacks if (each.rank, each.host, each.pid) == key]
    asked_bytes = sum(each.shown_bytes for each in seen[:-1])
    rate = max(stack.signs.io_bytes - old.signs.io_bytes - asked_bytes, 0) / seconds
    return Movement(stack, _doing(seen, cpu, rate), cpu, rate)


def _doing(seen: Sequence[RankStack], cpu: float, rate: float) -> Doing:
    last = seen[-1]
    if last.state in {"T", "t"}:
        return Doing.RESTS
    if cpu > _REST_CPU and any(_is_compiling(each) for each in seen):
        return Doing.COMPILES
    in_collective = all(collective_of(each) for each in seen)
    if in_collective and len({_place(each) for each in seen}) == 1:
        # Of NCCL a rank waits at full speed, and its watchdogs write; of gloo it rests.
        moves = not last.signs.has_gpu and cpu > _REST_CPU and (is_implicit(last) or rate > _REST_BYTES_PER_S)
        return Doing.MOVES if moves else Doing.WAITS
    if rate > _REST_BYTES_PER_S:
        return Doing.READS
    if cpu <= _REST_CPU:
        calls = {_calls(each) for each in seen if each.frames}  # a look may have failed
        return Doing.MOVES if cpu > _CRAWL_CPU and len(calls) > 1 else Doing.RESTS
    if cpu >= _BUSY_CPU and _is_loop(seen):
        return Doing.SPINS
    return Doing.MOVES


def _calls(stack: RankStack) -> tuple[str, ...]:
    """Return the user's functions on the stack: a loop that tries again and again stays in one."""
    return tuple(frame.function for frame in stack.frames if is_user_file(frame.file))


def _is_compiling(stack: RankStack) -> bool:
    if any(_COMPILERS.match(name) for name, _ in stack.signs.children):
        return True
    files = [frame.file for frame in stack.frames]
    return not any("importlib" in file for file in files) and any(map(_COMPILING.search, files))


def _may_run(stack: RankStack) -> bool:
    return is_user_file(stack.frames[0].file) and stack.owns_gil is not False


def _is_loop(seen: Sequence[RankStack]) -> bool:
    """Return whether Python itself ran in one function of the user's each time, and no library."""
    shown = [stack for stack in seen if stack.frames]
    # A rank that shows itself says only at the last look whether Python runs; a line that changes says the same.
    runs = shown and (shown[-1].owns_gil or len({stack.frames[0].line for stack in shown}) > 1)
    if not runs or any(stack.is_kept or not _may_run(stack) for stack in shown):
        return False
    inner = {(stack.frames[0].file, stack.frames[0].function) for stack in shown}
    lines = {stack.frames[0].line for stack in shown}
    outer = {stack.frames[1:] for stack in shown}
    return len(inner) == 1 and len(outer) == 1 and max(lines) - min(lines) <= 3  # a loop of few lines


def _place(stack: RankStack) -> tuple[str, Frame | None]:
    return collective_of(stack), user_frame(stack)


def _working(moved: Sequence[Movement], busy: Sequence[Movement]) -> Verdict:
    waiting = [each for each in moved if each.doing is Doing.WAITS]
    compiling = [each for each in busy if each.doing is Doing.COMPILES]
    numbers = tuple(sorted(each.stack.rank for each in busy))
    kind = JobCondition.COMPILES if compiling else JobCondition.WORKS
    share = "" if len(busy) == len(moved) else f" of {len(moved)}"
    what = _what(busy)
    if waiting and len(busy) < len(moved):
        doing = "compiles" if compiling else "works"
        first = busy[0].stack
        subject = _who([each.stack for each in busy])
        verb = doing if len(busy) == 1 else doing.removesuffix("s")
        waits = "wait" if len(waiting) > 1 else "waits"
        wait = f"{_count(len(waiting), 'rank')} {waits} in {collective_of(waiting[0].stack)}"
        sentence = f"{subject} {verb}{_at(user_frame(first), ' at ')} ({what}); {wait} meanwhile"
        return Verdict(kind, sentence, numbers, first.host, user_frame(first))
    verb = "it compiles" if compiling else "it works"
    unseen = busy[0].stack.unseen
    # A loop that never ends uses a core too: only its line tells it from work.
    if unseen and all(each.stack.unseen and each.doing is Doing.MOVES for each in busy):
        sentence = f"it runs: {_count(len(busy), 'rank')}{share} {what}; work and an endless loop look alike"
        return Verdict(kind, f"{sentence}, since {UNKNOWN_LINE}: {unseen}", unseen=unseen)
    return Verdict(kind, f"{verb}: {_count(len(busy), 'rank')}{share} {what}")


def _what(busy: Sequence[Movement]) -> str:
    cpu = sum(each.cpu for each in busy) / len(busy)
    rate = sum(each.bytes_per_s for each in busy)
    parts = [f"use{'s' if len(busy) == 1 else ''} {cpu:.0%} of a core{' each' if len(busy) > 1 else ''}"]
    if rate > _REST_BYTES_PER_S:
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
    groups = [part for group in fold([each.stack for each in moved]) for part in _parts_by_state(group)]
    waiting = [group for group in groups if group.in_collective]
    others = [group for group in groups if not group.in_collective]
    present = {each.stack.rank for each in moved} | {program.rank for program in programs}
    missing = sorted(set(range(size)) - present)
    spinning = {each.stack.rank for each in moved if each.doing is Doing.SPINS}
    if missing and (waiting or not others):
        return _for_the_missing(waiting, missing)
    if others:
        late = _latest(others, waiting, size)
        return _for_the_late(late, waiting, others, missing, spins=late.numbers[0] in spinning)
    return _all_wait(waiting)


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
    who = ranks_in_words(missing)
    has = "has" if len(missing) == 1 else "have"
    where = waiting[0].where if waiting else None
    wait = f"; {_waiting(waiting)}" if waiting else ""
    return Verdict(JobCondition.GONE, f"{who} {has} no process{wait}", tuple(missing), "", where)


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
    late: Group, waiting: Sequence[Group], others: Sequence[Group], missing: Sequence[int], *, spins: bool
) -> Verdict:
    stack = late.ranks[0]
    kind = JobCondition.LOOP if spins else standing(stack)
    who = _who(late.ranks)
    verb = kind.value if len(late.ranks) == 1 else _plural(kind.value)
    rest = [group for group in others if group is not late]
    tail = f"; {_waiting(waiting)}" if waiting else "".join(f"; {_standing_too(group)}" for group in rest[:2])
    gone = f"; {ranks_in_words(missing)} {'has' if len(missing) == 1 else 'have'} no process" if missing else ""
    about = f" ({stack.signs.file})" if stack.signs.file and kind in _ABOUT_A_FILE else ""
    unseen = stack.unseen
    why = f"; {UNKNOWN_LINE}: {unseen}" if unseen else ""
    sentence = f"{who} {verb}{about}{_at(late.where, ' at ')}{tail}{gone}{why}"
    return Verdict(kind, sentence, late.numbers, stack.host, late.where, unseen)


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


def standing(stack: RankStack) -> JobCondition:
    """Return how a rank that does not go on stands."""
    if stack.state == "T":
        return JobCondition.STOPPED
    if stack.state == "t":
        return JobCondition.DEBUGGER
    if any(_DEBUGGERS.search(frame.file) for frame in stack.frames):
        return JobCondition.DEBUGGER
    if stack.state == "D" and "vfork" not in stack.signs.waits:
        return JobCondition.FILE_SYSTEM
    if any(_LOADERS.search(frame.file) for frame in stack.frames):
        return JobCondition.LOADER
    kind = next((kind for pattern, kind in _WAITS if pattern.search(stack.signs.waits)), JobCondition.STANDS)
    # Every thread that waits for another sleeps in a futex: without a call stack that is not yet a lock.
    return JobCondition.STANDS if kind is JobCondition.LOCK and stack.unseen else kind


def _waiting(groups: Sequence[Group]) -> str:
    return "; ".join(_wait_of(group) for group in groups[:2])


def _wait_of(group: Group) -> str:
    number = len(group.ranks)
    return f"{_count(number, 'rank')} {'wait' if number > 1 else 'waits'} in {group.what}{_at(group.where, ' at ')}"


def _standing_too(group: Group) -> str:
    kind = standing(group.ranks[0]).value
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
