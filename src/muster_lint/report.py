"""Findings → text for people, JSON, and SARIF for other programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster import __version__
from muster_lint.rule import all_rules
from muster_lint.values import LintFinding, Severity

_LEVELS = {
    Severity.BREAKS: "error",
    Severity.HANGS: "error",
    Severity.SLOW: "warning",
    Severity.FRAGILE: "warning",
    Severity.STYLE: "note",
}
_COLOURS = {
    Severity.BREAKS: "31",
    Severity.HANGS: "31",
    Severity.SLOW: "33",
    Severity.FRAGILE: "33",
    Severity.STYLE: "36",
}


def as_text(findings: Sequence[LintFinding], texts: Mapping[str, str], *, coloured: bool = False) -> Iterator[str]:
    """Yield lines: each finding with its line, the place underlined, the reason and what to write."""
    explained: set[str] = set()
    for finding in findings:
        place = finding.place
        head = f"{finding.path}:{place.line}:{place.column}: {finding.severity}: {finding.message}"
        yield f"{_painted(head, '1', coloured)} {_painted(f'[{finding.rule}]', _COLOURS[finding.severity], coloured)}"
        lines = texts.get(finding.path, "").splitlines()
        if place.line <= len(lines):
            yield from _underlined(finding, lines[place.line - 1], coloured=coloured)
        if finding.rule not in explained:
            yield f"    why: {finding.why}"
            explained.add(finding.rule)
        yield f"    hint: {finding.instead}"
        yield ""
    yield _count(findings)


def _underlined(finding: LintFinding, line: str, *, coloured: bool) -> Iterator[str]:
    place = finding.place
    line = line.rstrip("\r")
    # A tab is as wide as it is shown; so it stays one below too.
    lead = "".join("\t" if sign == "\t" else " " for sign in line[: place.column - 1])
    end = place.end_column - 1 if place.end_line == place.line else len(line)
    marks = "^" * max(1, min(end, len(line)) - (place.column - 1))
    shown_line, lead = _within_sight(line, lead, place.column)
    yield f"    {shown_line}"
    yield f"    {lead}{_painted(marks[: max(1, len(shown_line) - len(lead))], _COLOURS[finding.severity], coloured)}"


def _within_sight(line: str, lead: str, column: int) -> tuple[str, str]:
    """Return the line and the space before the place, shortened where the line is very long."""
    if len(line) <= 160:
        return line, lead
    begin = max(0, column - 60)
    cut = "…" if begin else ""
    return f"{cut}{line[begin : begin + 140]}…", " " * (column - 1 - begin + len(cut))


def _painted(text: str, code: str, coloured: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def _count(findings: Sequence[LintFinding]) -> str:
    if not findings:
        return "nothing was found"
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    parts = ", ".join(f"{number} {severity}" for severity, number in counts.items() if number)
    fixable = sum(bool(finding.edits) for finding in findings)
    tail = f"; --fix repairs {fixable}" if fixable else ""
    return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}: {parts}{tail}"


def as_json(findings: Sequence[LintFinding]) -> list[dict[str, Any]]:
    """Return the findings as plain values with stable keys."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity.value,
            "path": finding.path,
            "line": finding.place.line,
            "column": finding.place.column,
            "end_line": finding.place.end_line,
            "end_column": finding.place.end_column,
            "message": finding.message,
            "why": finding.why,
            "instead": finding.instead,
            "source": finding.source,
            "fixable": bool(finding.edits),
        }
        for finding in findings
    ]


def as_sarif(findings: Sequence[LintFinding]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log, as code hosts read it."""
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": f"{rule.instead} Source: {rule.source}"},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in all_rules()
    ]
    results = [
        {
            "ruleId": finding.rule,
            "level": _LEVELS[finding.severity],
            "message": {"text": f"{finding.message}. {finding.instead}"},
            "locations": [{"physicalLocation": _location(finding)}],
        }
        for finding in findings
    ]
    driver = {"name": "muster lint", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}],
    }


def _location(finding: LintFinding) -> dict[str, Any]:
    place = finding.place
    return {
        "artifactLocation": {"uri": re.sub(r"[ %?#]", lambda match: f"%{ord(match[0]):02X}", finding.path)},
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        },
    }
