"""Rounds of disjoint pairs are what they should be, and name the slow node among 4 and among 256 in six rounds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.results import round_of
from muster_bench.pairs import pair_rates, suspects
from muster_bench.ranks.rounds import pair_rounds


@given(st.integers(2, 65), st.integers(1, 9), st.integers(0, 1 << 30))
def test_in_a_round_every_node_has_at_most_one_partner_and_one_node_at_most_none(
    nodes: int, rounds: int, seed: int
) -> None:
    for pairs in pair_rounds(nodes, rounds, seed):
        met = [node for pair in pairs for node in pair]
        assert len(met) == len(set(met))
        assert len(met) >= nodes - 1


@given(st.integers(2, 40), st.integers(0, 1 << 30))
def test_all_rounds_let_every_node_meet_every_other_exactly_once(nodes: int, seed: int) -> None:
    met = [pair for pairs in pair_rounds(nodes, None, seed) for pair in pairs]
    assert len(met) == len(set(met)) == nodes * (nodes - 1) // 2


def test_a_node_alone_has_nobody_to_meet() -> None:
    assert pair_rounds(1, 6, 0) == []


def simulated(nodes: int, slow: set[int], seed: int, noise: float = 0.03, share: float = 0.8) -> tuple[int, ...]:
    """Who is named after six rounds."""
    chance = random.Random(seed)  # noqa: S311
    rounds = []
    for number, pairs in enumerate(pair_rounds(nodes, 6, seed)):
        rates = {pair: 25 * (share if slow & {*pair} else 1.0) * chance.gauss(1, noise) for pair in pairs}
        rounds.append(round_of(number, rates))
    return tuple(node for one in suspects(pair_rates(rounds)) for node in one.nodes)


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, pytest.param(256, marks=pytest.mark.wide)])
def test_the_slow_node_is_named_and_no_other(nodes: int) -> None:
    for seed in range(100 if nodes < 100 else 40):
        bad = seed % nodes
        assert simulated(nodes, {bad}, seed) == (bad,)


@pytest.mark.wide
def test_a_healthy_set_of_256_names_nobody() -> None:
    assert [seed for seed in range(100) if simulated(256, set(), seed)] == []


def test_several_slow_nodes_are_all_named() -> None:
    for seed in range(20):
        assert set(simulated(256, {3, 100, 200, 255}, seed)) == {3, 100, 200, 255}


def test_a_slow_link_between_two_good_nodes_is_named_as_a_link() -> None:
    rates = {(a, b): 25.0 for a in range(6) for b in range(a + 1, 6)} | {(2, 4): 10.0}
    assert [one.nodes for one in suspects(rates)] == [(2, 4)]


def test_of_two_nodes_alone_nobody_can_tell_which_is_slow() -> None:
    assert suspects({(0, 1): 1.0}) == ()
