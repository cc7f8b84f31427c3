"""Every rule finds its own bad example, is silent on its good one, and no good example has another serious fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from muster_lint.look import lint_source
from muster_lint.read import FileKind, SourceFile
from muster_lint.rule import all_rules
from muster_lint.values import LintFinding, Rule, Severity

_RULES = all_rules()


@cache  # several tests ask for each example
def findings_in(text: str, kind: FileKind) -> list[LintFinding]:
    return lint_source(SourceFile("example", text, kind))


def _findings(rule: Rule, text: str) -> list[LintFinding]:
    return findings_in(text, FileKind(rule.language))


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.name)
def test_the_bad_example_is_found(rule: Rule) -> None:
    assert rule.name in {finding.rule for finding in _findings(rule, rule.bad)}


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.name)
def test_the_good_example_has_no_serious_fault(rule: Rule) -> None:
    serious = [
        each
        for each in _findings(rule, rule.good)
        if (each.severity is not Severity.STYLE and each.is_certain) or each.rule == rule.name
    ]
    assert [(each.rule, each.message) for each in serious] == []


def _in_words(each: LintFinding) -> str:
    changes = "".join(f", {edit.place.line}:{edit.place.column} → {edit.text!r}" for edit in each.edits)
    mark = f"{each.severity.value}{'?' * bool(each.unknown)}"
    return f"{each.place.line}:{each.place.column} {each.rule} ({mark}) {each.message}{changes}"


def test_what_is_found_in_each_example(golden: Callable[[Path, str], None]) -> None:
    rows = []
    others = {each.name for each in _RULES} - {"environment-of-submission"}  # an example names no environment
    for rule in _RULES:
        texts = [
            [each for each in _findings(rule, text) if each.rule in {rule.name} | others]
            for text in (rule.bad, rule.good)
        ]
        found = ["; ".join(map(_in_words, each)) for each in texts]
        rows.append(f"{rule.name}: {found[0]}. The good one: {found[1] or 'nothing'}")
    golden(Path(__file__).parent.parent / "golden/found.txt", "\n".join([*rows, ""]))


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.name)
def test_a_rule_says_who_says_so_and_what_to_write(rule: Rule) -> None:
    assert rule.why.endswith(".")
    assert rule.instead.endswith((".", ":"))
    assert len(rule.source) > 10
    assert rule.bad != rule.good


def test_there_are_as_many_rules_as_promised() -> None:
    assert len(_RULES) >= 60
    assert sum(rule.language == "python" for rule in _RULES) >= 25


@pytest.mark.parametrize("rule", [rule for rule in _RULES if rule.language == "batch"], ids=lambda rule: rule.name)
def test_places_lie_in_the_file(rule: Rule) -> None:
    lines = rule.bad.split("\n")
    for finding in _findings(rule, rule.bad):
        place = finding.place
        assert 1 <= place.line <= place.end_line <= len(lines)
        assert 1 <= place.column <= len(lines[place.line - 1]) + 1
        assert (place.line, place.column) <= (place.end_line, place.end_column)


def test_the_page_of_the_rules_is_current() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts/make_lint_rules.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0, f"run {script}"
