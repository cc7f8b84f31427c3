"""Stacks of many ranks → classes of ranks that stand at the same place, and who keeps the others waiting. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from muster_check.stacks.read import Frame, RankStack

_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3[^/]*/|/muster/rank/|^<|\.pyx$|\.so")
_COLLECTIVES = frozenset(
    """
    all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier broadcast
    broadcast_object_list gather monitored_barrier reduce reduce_scatter reduce_scatter_tensor scatter send recv
    batch_isend_irecv wait init_process_group synchronize allreduce
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
# Where a library's own collectives run, and no call of one stands on Python's stack.
_IMPLICIT = (
    ("_engine_run_backward", "torch/autograd/"),
    ("_sync_module_states", "torch/distributed/"),
    ("_verify_param_shape_across_processes", "torch/distributed/"),
    ("_pre_forward", "torch/nn/parallel/distributed"),
    ("destroy_process_group", "torch/distributed/"),
)
UNKNOWN_LINE = "the line is not known"
"""Of ranks that show no call stack."""

_SHOWN_AS = {"_engine_run_backward": "backward", "_pre_forward": "forward"}
_STATES = {"T": "is stopped", "t": "is held by a debugger", "D": "waits for a file system", "Z": "has ended"}


class Group(msgspec.Struct, frozen=True):
    """Ranks that stand at the same place."""

    what: str
    """The call, for a person."""

    where: Frame | None
    """The user's line; None where no stack could be read."""

    ranks: tuple[RankStack, ...]
    in_collective: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the ranks' numbers."""
        return tuple(rank.rank for rank in self.ranks)


def fold(stacks: Sequence[RankStack]) -> tuple[Group, ...]:
    """Return the classes, the largest first."""
    groups: dict[tuple[object, ...], list[RankStack]] = {}
    for stack in stacks:
        groups.setdefault(_key(stack), []).append(stack)
    return tuple(
        sorted((_group(ranks) for ranks in groups.values()), key=lambda group: (-len(group.ranks), group.numbers))
    )


def _key(stack: RankStack) -> tuple[object, ...]:
    call, frame = _call(stack)
    return call, frame, stack.state if stack.state in _STATES else "", stack.trouble


def _group(ranks: Sequence[RankStack]) -> Group:
    first = ranks[0]
    call, frame = _call(first)
    state = _STATES.get(first.state)
    place = UNKNOWN_LINE if first.unseen else first.trouble or call or "no Python frame"
    if state is not None:
        place = f"{state}, in {place}" if not first.trouble else state
    return Group(place, frame, tuple(ranks), in_collective=_is_collective(first) and state is None)


def is_user_file(file: str) -> bool:
    """Tell whether a file of a stack is the user's own, and not of a library."""
    return not _LIBRARY.search(file)


def user_frame(stack: RankStack) -> Frame | None:
    """Return the innermost frame of the user's own files, of another thread where the main one has none."""
    threads = (stack.frames, *(frames for _, frames in stack.threads))
    own_frames = (frame for frames in threads for frame in frames if is_user_file(frame.file))
    return next(own_frames, stack.frames[0] if stack.frames else None)


def collective_of(stack: RankStack) -> str:
    """Return the outermost collective of torch on the stack; empty where there is none."""
    name = next((frame.function for frame in reversed(stack.frames) if _belongs(frame)), "")
    return _SHOWN_AS.get(name, name)


def is_implicit(stack: RankStack) -> bool:
    """Tell whether the rank may compute or wait: its library does both in one call."""
    return not any(frame.function in _COLLECTIVES and "torch/distributed/" in frame.file for frame in stack.frames)


def _call(stack: RankStack) -> tuple[str, Frame | None]:
    """Return the library's function that the user's innermost line calls, and that line."""
    for index, frame in enumerate(stack.frames):
        if not _LIBRARY.search(frame.file):
            inner = stack.frames[:index]
            collective = next((frame.function for frame in reversed(inner) if _belongs(frame)), None)
            return _SHOWN_AS.get(collective or "", collective) or (
                inner[-1].function if inner else frame.function
            ), frame
    return (stack.frames[0].function, user_frame(stack)) if stack.frames else ("", None)


def _is_collective(stack: RankStack) -> bool:
    """Tell whether a collective of torch stands on the stack."""
    return any(_belongs(frame) for frame in stack.frames)


def _belongs(frame: Frame) -> bool:
    if frame.function in _COLLECTIVES and "torch/distributed/" in frame.file:
        return True
    return any(frame.function == name and part in frame.file for name, part in _IMPLICIT)


def culprits(groups: Sequence[Group], size: int) -> str | None:
    """Return one sentence on who keeps the others waiting; None where nothing tells."""
    waiting = [group for group in groups if group.in_collective]
    other_groups = [group for group in groups if not group.in_collective]
    missing = sorted(set(range(size)) - {number for group in groups for number in group.numbers})
    if missing and waiting:
        return f"{_count(waiting)} in {waiting[0].what} for {ranks_in_words(missing)}, of which there is no process"
    if waiting and other_groups:
        late_group = (
            other_groups[0] if len(other_groups) == 1 else min(other_groups, key=lambda group: len(group.ranks))
        )
        return f"{_count(waiting)} in {waiting[0].what} for {_who(late_group)}, {_standing(late_group)}"
    if len({(group.what, group.where) for group in waiting}) > 1:
        small_group = min(waiting, key=lambda group: len(group.ranks))
        return f"the ranks wait in different collectives: {_who(small_group)} in {small_group.what}, {_at(small_group)}"
    return None


def _count(groups: Sequence[Group]) -> str:
    number = sum(len(group.ranks) for group in groups)
    return f"{number} rank{'s wait' if number > 1 else ' waits'}"


def _standing(group: Group) -> str:
    state = next((words for letter, words in _STATES.items() if group.ranks[0].state == letter), None)
    if group.where is None:
        return f"which {state or 'shows no stack'}"
    return f"which {state or 'stands'} at {_at(group).removeprefix('at ')}"


def _at(group: Group) -> str:
    return f"at {group.where.name}:{group.where.line}" if group.where else "at an unknown place"


def _who(group: Group) -> str:
    hosts = sorted({rank.host for rank in group.ranks})
    on = f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"
    return ranks_in_words(group.numbers) + on


def ranks_in_words(numbers: Sequence[int]) -> str:
    """Return "rank 3" or "ranks 0-16,18"."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "ranks " + ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def lines_of(
    groups: Sequence[Group], size: int, source: Callable[[str, int], str], *, full: bool = False
) -> Iterator[str]:
    """Yield what a person reads: one or two lines for each class, then the sentence."""
    for group in groups:
        yield _headline(group)
        text = source(group.where.file, group.where.line).strip() if group.where else ""
        if text and group.where:
            yield f"    {group.where.line} | {text}"
        if full:
            yield from _full(group.ranks[0])
    present = {number for group in groups for number in group.numbers}
    missing = sorted(set(range(size)) - present)
    if missing:
        yield f"{ranks_in_words(missing)}: there is no process"
    sentence = culprits(groups, size)
    if sentence is not None:
        yield ""
        yield sentence


def _headline(group: Group) -> str:
    hosts = sorted({rank.host for rank in group.ranks})
    on = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    number = len(group.ranks)
    subject = f"{number} rank{'s' if number > 1 else ''} ({ranks_in_words(group.numbers).partition(' ')[2]})"
    place = f" at {group.where.file}:{group.where.line} ({group.where.function})" if group.where else ""
    return f"{subject} on {on}: {group.what}{place}"


def _full(stack: RankStack) -> Iterator[str]:
    for name, frames in stack.threads:
        yield f"    thread {name} of rank {stack.rank} (process {stack.pid} on {stack.host})"
        yield from (f"        {frame.function} ({frame.file}:{frame.line})" for frame in frames)
