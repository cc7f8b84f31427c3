"""Rounds of disjoint pairs: in each round every node has one partner (one node none, where they are odd in number)."""

import random
from typing import List, Optional, Tuple


def pair_rounds(nodes: int, rounds: Optional[int], seed: int) -> List[List[Tuple[int, int]]]:
    """Return `rounds` rounds in random order, none twice before all were once.

    None: every node meets every other once.
    """
    if nodes < 2:
        return []
    chance = random.Random(seed)
    all_rounds = _tournament(chance.sample(range(nodes), nodes))
    round_count = len(all_rounds) if rounds is None else rounds
    chosen_rounds: List[List[Tuple[int, int]]] = []
    while len(chosen_rounds) < round_count:
        chosen_rounds += chance.sample(all_rounds, min(len(all_rounds), round_count - len(chosen_rounds)))
    return chosen_rounds


def _tournament(seats: List[int]) -> List[List[Tuple[int, int]]]:
    """Return all rounds, by turning all seats but the first."""
    places: List[Optional[int]] = [*seats, *([None] if len(seats) % 2 else [])]
    count = len(places)
    rounds = []
    for _ in range(count - 1):
        pairs = [(places[index], places[count - 1 - index]) for index in range(count // 2)]
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return rounds
