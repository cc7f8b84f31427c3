"""What torch and NCCL say themselves of ranks that wait: a sentence each, where they say anything. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster_check.stacks.ras import what_nccl_says
from muster_check.stacks.read import RankStack, Round, roles_in
from muster_check.stacks.record import what_records_say


def own_words(stacks: Sequence[RankStack]) -> tuple[str, ...]:
    """Return the sentences, torch's first; of each role where the ranks are of several."""
    roles = roles_in((Round(tuple(stacks), frozenset()),))
    return tuple(text for role in roles for text in _of_role(role, [each for each in stacks if each.role == role]))


def _of_role(role: str, stacks: Sequence[RankStack]) -> Iterator[str]:
    for text in (what_records_say(stacks), what_nccl_says(stacks)):
        if text is not None:
            yield f"role {role}: {text}" if role else text
