"""Which node is slow, from rounds of disjoint pairs. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from muster_bench.results import Pairs

_SLOW_NODE = 0.90
_SLOW_LINK = 0.50
"""A pair of good nodes meets once or twice: one busy moment must not condemn their link."""

Pair = tuple[int, int]


class Suspicion(msgspec.Struct, frozen=True):
    """One node, or two where only their link is slow or nothing tells them apart; its rate over the usual one."""

    nodes: tuple[int, ...]
    rate_gb_s: float
    usual_gb_s: float

    @property
    def share(self) -> float:
        return self.rate_gb_s / self.usual_gb_s


def pair_rates(rounds: Sequence[Pairs]) -> dict[Pair, float]:
    """Return the GB/s each way of each pair that met, the best of its rounds.

    What slows one round is not the pair's.
    """
    return {pair: max(rates) for pair, rates in _met(rounds).items()}


def _met(rounds: Sequence[Pairs]) -> dict[Pair, list[float]]:
    rates_by_pair: dict[Pair, list[float]] = {}
    for pair_round in rounds:
        for a, b, seconds, *_ in pair_round.pairs:
            rates_by_pair.setdefault((min(a, b), max(a, b)), []).append(pair_round.bytes / seconds / 1e9)
    return rates_by_pair


def pair_noise(rounds: Sequence[Pairs]) -> float:
    """Return how far the results of one pair lie apart, as a part of one: over its trials, and over its rounds."""
    trials = [pair[4] for pair_round in rounds for pair in pair_round.pairs]
    meetings = [(max(rates) - min(rates)) / (2 * max(rates)) for rates in _met(rounds).values() if len(rates) > 1]
    return max(statistics.median(rates or [0.0]) for rates in (trials, meetings))


def suspects(rates: Mapping[Pair, float], noise: float = 0.0) -> tuple[Suspicion, ...]:
    """Return slow nodes, slowest first, then links that are slow between two good nodes.

    A good node shows what it can with its better partners, a slow one with none: a node is judged by the better half
    of its partners. Two nodes alone have nothing to be compared with. Where the trials of a pair themselves differ
    much (`noise`), a difference between nodes has to be larger.
    """
    by_node: dict[int, list[float]] = {}
    for (a, b), rate in rates.items():
        by_node.setdefault(a, []).append(rate)
        by_node.setdefault(b, []).append(rate)
    if len(by_node) < 3:
        return ()
    ability = {node: statistics.median(sorted(rates)[len(rates) // 2 :]) for node, rates in by_node.items()}
    usual = statistics.median_high(ability.values())
    node_floor, link_floor = (usual * min(share, 1 - 2 * noise) for share in (_SLOW_NODE, _SLOW_LINK))
    slow = [Suspicion((node,), rate, usual) for node, rate in ability.items() if rate < node_floor]
    slow_nodes = {suspect.nodes[0] for suspect in slow}
    links = [
        Suspicion(pair, rate, usual) for pair, rate in rates.items() if rate < link_floor and not slow_nodes & {*pair}
    ]
    return tuple(sorted(slow, key=lambda suspect: suspect.share) + sorted(links, key=lambda suspect: suspect.share))
