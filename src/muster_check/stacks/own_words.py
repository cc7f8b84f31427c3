"""What torch and NCCL say themselves of ranks that wait: a sentence each, where they say anything. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muster_check.stacks.ras import what_nccl_says
from muster_check.stacks.read import RankStack
from muster_check.stacks.record import what_records_say


def own_words(stacks: Sequence[RankStack]) -> tuple[str, ...]:
    """Return the sentences, torch's first."""
    return tuple(text for text in (what_records_say(stacks), what_nccl_says(stacks)) if text is not None)
