"""A script of twice the length costs each rule about twice the calls, so that a long script ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache

import pytest

from muster_lint.job import BatchScript, read_job
from muster_lint.rule import all_rules
from muster_lint.values import Rule

_RULES = [rule for rule in all_rules() if rule.language == "batch"]
_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:4 --time=10\n"
_SHORT, _LONG = 3, 6
# What a rule does once however long the script is, and what stands only once in the shorter one.
_SPARE = 3_000


def _bodies() -> Iterator[str]:
    """Yield the lines below the header of each rule's examples, but for those that end a script or its text."""
    for rule in _RULES:
        for text in (rule.bad, rule.good):
            lines = [line for line in text.splitlines() if line and not line.startswith("#")]
            if not any(word in text for word in ("<<", "exit", "exec", "\r", "'\"'\"'")):
                yield from lines


@lru_cache
def _script(times: int) -> BatchScript:
    """Return a script that holds all examples so many times."""
    return read_job("long.sh", _HEAD + "\n".join([*_bodies()] * times) + "\n")


def _calls(rule: Rule, times: int) -> int:
    """Return how many functions a rule calls for a script."""
    count = 0

    def note(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    job = _script(times)
    sys.setprofile(note)
    try:
        for _ in rule.check(job):
            pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.name)
def test_a_rule_costs_twice_the_calls_for_twice_the_lines(rule: Rule) -> None:
    _calls(rule, _SHORT), _calls(rule, _LONG)  # what is cached of a script is there now
    assert _calls(rule, _LONG) <= 2.3 * _calls(rule, _SHORT) + _SPARE
