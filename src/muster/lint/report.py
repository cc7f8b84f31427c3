"""Findings → text for people, JSON, and SARIF for other programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster import __version__
from muster.lint.rule import all_rules
from muster.lint.values import Finding, Severity

__all__ = ["as_json", "as_sarif", "as_text"]

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


def as_text(findings: Sequence[Finding], texts: Mapping[str, str], *, coloured: bool = False) -> Iterator[str]:
    """Yield lines: each finding with its line, the place underlined, the reason and what to write."""
    explained: set[str] = set()
    for each in findings:
        place = each.place
        head = f"{each.path}:{place.line}:{place.column}: {each.severity}: {each.message}"
        yield f"{_painted(head, '1', coloured)} {_painted(f'[{each.rule}]', _COLOURS[each.severity], coloured)}"
        lines = texts.get(each.path, "").splitlines()
        if place.line <= len(lines):
            yield from _underlined(each, lines[place.line - 1], coloured=coloured)
        if each.rule not in explained:
            yield f"    why: {each.why}"
            explained.add(each.rule)
        yield f"    hint: {each.instead}"
        yield ""
    yield _count(findings)


def _underlined(finding: Finding, line: str, *, coloured: bool) -> Iterator[str]:
    place = finding.place
    line = line.rstrip("\r")
    # A tab is as wide as it is shown; so it stays one below too.
    lead = "".join("\t" if sign == "\t" else " " for sign in line[: place.column - 1])
    end = place.end_column - 1 if place.end_line == place.line else len(line)
    marks = "^" * max(1, min(end, len(line)) - (place.column - 1))
    shown, lead = _within_sight(line, lead, place.column)
    yield f"    {shown}"
    yield f"    {lead}{_painted(marks[: max(1, len(shown) - len(lead))], _COLOURS[finding.severity], coloured)}"


def _within_sight(line: str, lead: str, column: int) -> tuple[str, str]:
    """Return the line and the space before the place, shortened where the line is very long."""
    if len(line) <= 160:
        return line, lead
    begin = max(0, column - 60)
    cut = "…" if begin else ""
    return f"{cut}{line[begin : begin + 140]}…", " " * (column - 1 - begin + len(cut))


def _painted(text: str, code: str, coloured: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def _count(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing was found"
    counts = {severity: sum(each.severity is severity for each in findings) for severity in Severity}
    parts = ", ".join(f"{number} {severity}" for severity, number in counts.items() if number)
    fixable = sum(bool(each.edits) for each in findings)
    tail = f"; --fix repairs {fixable}" if fixable else ""
    return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}: {parts}{tail}"


def as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings as plain values with stable keys."""
    return [
        {
            "rule": each.rule,
            "severity": each.severity.value,
            "path": each.path,
            "line": each.place.line,
            "column": each.place.column,
            "end_line": each.place.end_line,
            "end_column": each.place.end_column,
            "message": each.message,
            "why": each.why,
            "instead": each.instead,
            "source": each.source,
            "fixable": bool(each.edits),
        }
        for each in findings
    ]


def as_sarif(findings: Sequence[Finding]) -> dict[str, Any]:
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
            "ruleId": each.rule,
            "level": _LEVELS[each.severity],
            "message": {"text": f"{each.message}. {each.instead}"},
            "locations": [{"physicalLocation": _location(each)}],
        }
        for each in findings
    ]
    driver = {"name": "muster lint", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}],
    }


def _location(finding: Finding) -> dict[str, Any]:
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
