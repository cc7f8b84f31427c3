"""What one look at a job's ranks brought, for tests of a single look."""

from __future__ import annotations

from muster_check.stacks.read import RankStack, read_rounds


def read_answers(text: str) -> tuple[RankStack, ...]:
    """The stacks of all ranks by their number, of the first look."""
    rounds = read_rounds(text)
    return rounds[0].stacks if rounds else ()
