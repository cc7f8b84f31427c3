"""From seconds to bandwidth: algorithm bandwidth is bytes over time, bus bandwidth that times a factor of the ranks.

The factors are those of nccl-tests (doc/PERFORMANCE.md). They make the figure of a ring comparable with the speed of
the slowest link whatever the number of ranks; docs/explanation/bandwidth.md derives them.
"""

from __future__ import annotations

from fractions import Fraction

from muster.errors import UnknownName

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")


def bus_factor(collective: str, ranks: int) -> Fraction:
    """Return bus bandwidth over algorithm bandwidth, exact. 0 for one rank of a collective that then sends nothing."""
    if collective == "all_reduce":
        return Fraction(2 * (ranks - 1), ranks)
    if collective in {"all_gather", "reduce_scatter", "all_to_all"}:
        return Fraction(ranks - 1, ranks)
    if collective in {"broadcast", "send_recv"}:
        return Fraction(1)
    raise UnknownName("collective", collective, COLLECTIVES)
