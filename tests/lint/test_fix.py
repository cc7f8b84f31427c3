"""--fix: after it the finding is gone, nothing new is there, and bash still reads the script."""

from __future__ import annotations

import subprocess

import pytest

from muster_lint.fix import fixed_text
from muster_lint.look import lint_source
from muster_lint.read import FileKind, SourceFile
from muster_lint.rule import all_rules
from muster_lint.values import Rule

_FIXABLE = [
    rule
    for rule in all_rules()
    if any(finding.edits for finding in lint_source(SourceFile("x", rule.bad, FileKind(rule.language))))
]


def test_some_rules_repair() -> None:
    assert len(_FIXABLE) >= 8


@pytest.mark.parametrize("rule", _FIXABLE, ids=lambda rule: rule.name)
def test_a_repaired_script_has_no_more_findings_than_before(rule: Rule) -> None:
    before = lint_source(SourceFile("x", rule.bad, FileKind.BATCH))
    text = fixed_text(rule.bad, before)
    after = lint_source(SourceFile("x", text, FileKind.BATCH))
    repaired = {finding.rule for finding in before if finding.edits}
    assert not repaired & {finding.rule for finding in after if finding.edits}
    assert {finding.rule for finding in after} <= {finding.rule for finding in before} | {
        "gpus-per-task",
        "port-missing",
    }
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
