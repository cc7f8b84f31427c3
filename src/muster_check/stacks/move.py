"""Looks at every rank → what each one did between them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from muster.older import StrEnum
from muster_check.stacks.condition import JobCondition, standing
from muster_check.stacks.fold import collective_of, is_implicit, is_user_file, user_frame
from muster_check.stacks.pulse import Beat, beat_of
from muster_check.stacks.read import Frame, RankStack, Round

# What a rank at rest uses: its watchdogs and heartbeats.
REST_CPU = 0.02
_CRAWL_CPU = 0.002
REST_BYTES_PER_S = 2048
"""More than that is read or written on purpose."""

_BUSY_CPU = 0.05
# Threads of torch that only look for packets use 0.2 % of a core.
_IDLE_BESIDE = 0.005


class Doing(StrEnum):
    """What one rank did between two looks."""

    MOVES = "moves"
    COMPILES = "compiles"
    READS = "reads or writes"
    SPINS = "runs at one line"
    CALLS = "runs in C code"
    WAITS = "waits in a collective"
    RESTS = "rests"


class Movement(msgspec.Struct, frozen=True):
    """What one rank did between two looks, and where it stood at the last."""

    stack: RankStack
    doing: Doing
    cpu: float
    """Cores that it used, itself and its children."""

    bytes_per_s: float
    beat: Beat | None = None
    """What the kernel counted in between; None: it did not."""

    @property
    def wakes(self) -> bool:
        """Return whether it stands, and wakes now and then to look at something."""
        return self.doing is Doing.RESTS and self.beat is not None and self.beat.times > 0

    @property
    def cpu_beside(self) -> float:
        """Return the part of a core that its other threads and its children use while it stands; 0: hardly any."""
        if self.doing is not Doing.RESTS or self.beat is None:
            return 0.0
        is_told = self.beat.works_beside or self.beat.cpu_beside > _IDLE_BESIDE
        return self.beat.cpu_beside if is_told else 0.0

    @property
    def goes_on(self) -> bool:
        """Return whether this is progress."""
        return self.doing in {Doing.MOVES, Doing.COMPILES, Doing.READS}


_COMPILERS = re.compile(
    r"^(cc1(plus)?|nvcc|cicc|ptxas|fatbinary|ninja|gcc|g\+\+|c\+\+|clang(\+\+)?(-\d+)?|ld|as|hipcc|lld)$"
)
_COMPILING = re.compile(
    r"/torch/(_dynamo|_inductor|_functorch|utils/cpp_extension)|/triton/|/jaxlib?/.*compil|/numba/core/"
)


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
    beat = beat_of(stack.pid, [each.pulses for each in seen])
    if beat is not None and stack.signs.cpu_s - old.signs.cpu_s - _counted_s(old, stack) > _CRAWL_CPU * seconds:
        # A child that began and ended between two looks is only in the sum of the rank.
        beat = msgspec.structs.replace(beat, below_works=True)
    return Movement(stack, _doing(seen, cpu, rate, beat), cpu, rate, beat)


def _counted_s(old: RankStack, now: RankStack) -> float:
    return now.pulses[0].spent_s - old.pulses[0].spent_s


def _doing(seen: Sequence[RankStack], cpu: float, rate: float, beat: Beat | None) -> Doing:
    last = seen[-1]
    if last.state in {"T", "t"}:
        # It may have been stopped only now.
        return Doing.MOVES if beat is not None and beat.works_at_a_time else Doing.RESTS
    if cpu > REST_CPU and any(_is_compiling(each) for each in seen):
        return Doing.COMPILES
    in_collective = all(collective_of(each) for each in seen)
    if in_collective and len({_place(each) for each in seen}) == 1:
        # Of NCCL a rank waits at full speed, and its watchdogs write; of gloo it rests.
        moves = not last.signs.has_gpu and cpu > REST_CPU and (is_implicit(last) or rate > REST_BYTES_PER_S)
        return Doing.MOVES if moves and not _is_of_a_thread_beside(last, beat) else Doing.WAITS
    if beat is not None:
        return _doing_of_main_thread(seen, beat)
    if rate > REST_BYTES_PER_S:
        return Doing.READS
    if cpu <= REST_CPU:
        calls = {_calls(each) for each in seen if each.frames}  # a look may have failed
        return Doing.MOVES if cpu > _CRAWL_CPU and len(calls) > 1 else Doing.RESTS
    if cpu >= _BUSY_CPU and _is_loop(seen):
        return Doing.SPINS
    return Doing.MOVES


def _is_of_a_thread_beside(stack: RankStack, beat: Beat | None) -> bool:
    """Return whether the main thread stood, and a thread of Python's beside it, or a child, did all that was done."""
    if beat is None or beat.times or (len(stack.threads) < 2 and not stack.signs.children):
        return False
    return not beat.woken - set(stack.thread_ids)


def _doing_of_main_thread(seen: Sequence[RankStack], beat: Beat) -> Doing:
    """Return what a rank did, of which the kernel told what each thread did."""
    if beat.bytes / beat.seconds > REST_BYTES_PER_S:
        return Doing.READS
    if beat.cpu >= _BUSY_CPU:
        if _is_loop(seen):
            return Doing.SPINS
        return Doing.CALLS if beat.seconds >= _LONG_CALL_S and _is_one_call(seen) else Doing.MOVES
    calls = {_calls(each) for each in seen if each.frames}  # a look may have failed
    if beat.times and (_is_brought_on(seen[-1], beat) or (beat.cpu > _CRAWL_CPU and len(calls) > 1)):
        return Doing.MOVES
    return Doing.MOVES if _is_worked_for(seen[-1], beat) else Doing.RESTS


def _is_brought_on(stack: RankStack, beat: Beat) -> bool:
    """Return whether what woke the main thread is progress: something came, it worked, or too little was seen."""
    if beat.waits_for_ever or beat.works_at_a_time:
        return True
    if beat.period_s is not None and beat.times > 2 * beat.seconds / max(beat.period_s, 0.001) + 1:
        return True
    return beat.seconds >= _LONG_S and beat.times < _FEW_LOOKS and standing(stack) is not JobCondition.LOADER


def _is_worked_for(stack: RankStack, beat: Beat) -> bool:
    """Return whether a process or a thread for which the main thread may wait goes on."""
    kind = standing(stack)
    files = [frame.file for frame in stack.frames]
    if beat.below_works and (kind in _FOR_A_PROCESS or beat.times or any(map(_PROCESSES.search, files))):
        return True
    if kind not in {JobCondition.LOCK, JobCondition.STANDS} and not beat.times:
        return False
    beside = {
        number
        for number, (_, frames) in zip(stack.thread_ids, stack.threads)
        if any(_MONITORS.search(frame.file) for frame in frames)
    }
    return bool(beat.woken - beside)


_FOR_A_PROCESS = frozenset({JobCondition.CHILD, JobCondition.PIPE, JobCondition.LOADER, JobCondition.STANDS})
_PROCESSES = re.compile(r"/(multiprocessing|concurrent/futures|subprocess\.py|asyncio)\b")
# Libraries whose threads look at the rank and do nothing for it.
_MONITORS = re.compile(
    r"/(wandb|psutil|tensorboard|tensorboardX|tqdm|rich|mlflow|comet_ml|neptune|clearml|codecarbon|aim|swanlab"
    r"|prometheus_client|opentelemetry|sentry_sdk|muster)/"
)
# A look at a running job in between is too short to tell work from a loop that looks at something.
_LONG_CALL_S = 1.5
_LONG_S = 5.0
_FEW_LOOKS = 5


def _is_one_call(seen: Sequence[RankStack]) -> bool:
    """Return whether the rank was in C code each time, and called from the same place."""
    shown = [stack for stack in seen if stack.frames and not stack.is_kept]
    return len(shown) > 2 and len({stack.frames for stack in shown}) == 1 and not any(each.owns_gil for each in shown)


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
