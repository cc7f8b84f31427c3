"""How a rule is written: a function that yields hits, under the words that say what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from muster.errors import MachineLacks, UnknownName
from muster.parts import LINT_RULES, load_point, parts_of_others
from muster_lint.values import Hit, Rule, Severity

_ROOMS = (
    "header",
    "header_values",
    "output",
    "again",
    "shared",
    "neighbours",
    "results",
    "loops",
    "folders",
    "paths",
    "signals",
    "sizes",
    "unused",
    "step",
    "slurm_variables",
    "status",
    "checks",
    "failures",
    "agents",
    "programs",
    "idle",
    "names",
    "meeting",
    "shell",
    "waiting",
    "batch_host",
    "answers",
    "slips",
    "environment",
    "containers",
    "fetched",
    "variables",
    "python_devices",
    "python_groups",
    "python_data",
)
_RULES: dict[str, Rule] = {}

Check = Callable[[Any], Iterator[Hit]]


def rule(
    name: str,
    severity: Severity,
    title: str,
    *,
    why: str,
    instead: str,
    source: str,
    bad: str,
    good: str,
    language: str = "batch",
) -> Callable[[Check], Check]:
    """Enter the function below as a rule."""

    def enter(check: Check) -> Check:
        if name in _RULES:
            raise ValueError(f"two rules are called {name}")
        _RULES[name] = Rule(
            name, severity, title, _joined(why), _joined(instead), source, bad, good, check=check, language=language
        )
        return check

    return enter


def _joined(text: str) -> str:
    """Return a text of several lines as one."""
    return " ".join(text.split())


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule: ours room by room, then those that other packages bring."""
    for room in _ROOMS:
        import_module(f"muster_lint.rules.{room}")
    for point in parts_of_others(LINT_RULES).values():
        with suppress(MachineLacks):
            load_point(point)
    return tuple(_RULES.values())


def broken_parts() -> list[str]:
    """Return a sentence for each part of another package whose rules cannot be loaded: the others look all the same."""
    sentences = []
    for point in parts_of_others(LINT_RULES).values():
        try:
            load_point(point)
        except MachineLacks as error:
            sentences.append(f"{error.message}; {error.hint}")
    return sentences


def rule_named(name: str) -> Rule:
    """Return one rule."""
    for candidate in all_rules():
        if candidate.name == name:
            return candidate
    raise UnknownName("rule", name, [candidate.name for candidate in all_rules()], listed_by="muster lint --rules")
