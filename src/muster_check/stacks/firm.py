"""How long ranks have to stand until their attempt may be ended: the more they may still go on, the longer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muster_check.stacks.condition import JobCondition, standing
from muster_check.stacks.move import Doing, Movement

OPEN_S = 300
"""What waits for something from outside may get it; so long a silence is none of a healthy server or disk."""

_LOOSE = 10
"""A rank that wakes now and then, or computes, may go on by itself: it gets so many times the time."""

_FIRM = frozenset({JobCondition.STOPPED, JobCondition.DEBUGGER})


def ends_after_s(moved: Sequence[Movement], after_s: int) -> int:
    """Return after how many seconds of standing the attempt may be ended.

    A node that does not answer may be slow: the ranks that are seen decide, and where none is, nobody waits for it.
    """
    return max((_of_rank(each, after_s) for each in moved), default=max(after_s, OPEN_S))


def is_still(moved: Sequence[Movement]) -> bool:
    """Return whether nothing of a rank so much as woke: then it is known that no rank went on."""
    return not any(each.wakes or each.cpu_beside or each.doing in {Doing.SPINS, Doing.CALLS} for each in moved)


def _of_rank(movement: Movement, after_s: int) -> int:
    loose_s = max(_LOOSE * after_s, OPEN_S)
    stack, beat = movement.stack, movement.beat
    kind = standing(stack)
    if movement.doing is Doing.WAITS or kind in _FIRM:
        return after_s
    if movement.doing is not Doing.RESTS or movement.wakes:
        return loose_s
    if beat is not None and kind is JobCondition.SLEEP and beat.sleeps_s is not None:
        # It ends by itself, and says when.
        return after_s if beat.sleeps_s >= loose_s else loose_s
    # Nobody but another thread can give back a lock of Python's.
    is_alone = len(stack.threads) == 1 and not stack.signs.children
    if kind is JobCondition.LOCK and is_alone and beat is not None and beat.waits_for_ever:
        return after_s
    return max(after_s, OPEN_S)
