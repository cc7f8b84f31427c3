"""Seeded faults: at least 95 of 100 are found, by the right rule, in whatever right script they are put."""

from __future__ import annotations

from collections import Counter

import pytest

from muster_lint.rule import all_rules
from plugins.wide import sampled

from .mutations import SEEDS, Mutation, correct, is_found, mutations

MOST_MISSED = 0.05


@pytest.fixture(scope="module")
def every() -> list[Mutation]:
    """Return every seeded fault."""
    return list(mutations(correct()))


def _check(seeded: list[Mutation]) -> None:
    missed = [each for each in seeded if not is_found(each)]
    by_seed = Counter(each.seed for each in missed)
    assert len(missed) <= MOST_MISSED * len(seeded), f"{len(missed)} of {len(seeded)}: {by_seed}"


def test_every_seed_fits_somewhere_and_names_a_rule(every: list[Mutation]) -> None:
    fitting = {each.seed for each in every}
    names = {rule.name for rule in all_rules()} | {"not-python"}
    assert [seed.name for seed in SEEDS if seed.name not in fitting] == []
    assert {name for seed in SEEDS for name in seed.rules} <= names
    assert len({each.rules[0] for each in every}) >= 75


def test_there_are_as_many_faults_as_promised(every: list[Mutation]) -> None:
    assert len(every) >= 1000


@pytest.mark.parametrize("first", sampled(range(0, 24, 8), keep=3))
def test_nearly_every_eighth_fault_is_found_by_the_right_rule(every: list[Mutation], first: int) -> None:
    _check(every[first::24])


@pytest.mark.long
def test_nearly_every_fault_is_found_by_the_right_rule(every: list[Mutation]) -> None:
    _check(every)


def test_a_right_script_is_not_blamed_for_a_fault_that_it_lacks(every: list[Mutation]) -> None:
    """The figures would mean nothing if a rule spoke everywhere: the scripts before the seed are silent."""
    spoken = Counter(rule for each in every for rule in each.rules)
    assert min(spoken.values()) >= 1
