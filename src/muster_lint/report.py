"""Findings → text for people, JSON, and SARIF for other programs. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from muster import __version__
from muster_lint.rule import all_rules
from muster_lint.sources import address_of
from muster_lint.values import LintFinding, Rule, Severity, TextSpan, UnreadFile

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


_MOST_OF_A_RULE = 3
"""So many findings of one rule are told one by one in a file; more are one finding with several places."""


def grouped(findings: Sequence[LintFinding]) -> list[LintFinding]:
    """Return the findings with one for all places of a file where a rule says the same, or speaks again and again."""
    messages: dict[tuple[str, str], set[str]] = {}
    for finding in findings:
        messages.setdefault((finding.path, finding.rule), set()).add(finding.message)
    groups: dict[tuple[str, ...], list[LintFinding]] = {}
    for finding in findings:
        key = (finding.path, finding.rule)
        is_often = len(messages[key]) > _MOST_OF_A_RULE
        groups.setdefault((*key, finding.severity, "" if is_often else finding.message), []).append(finding)
    return [_merged(members) for members in groups.values()]


def _merged(members: Sequence[LintFinding]) -> LintFinding:
    edits = tuple(dict.fromkeys(edit for member in members for edit in member.edits))
    others = tuple(member.place for member in members[1:])
    return msgspec.structs.replace(members[0], edits=edits, also=others)


def as_text(
    findings: Sequence[LintFinding], texts: Mapping[str, str], *, silenced: int = 0, coloured: bool = False
) -> Iterator[str]:
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
        if finding.also:
            yield f"    also: {_lines_of(finding)}"
        yield ""
    yield _count(findings) + (f"; {silenced} of style (--select=style) or silenced by the settings" if silenced else "")


def _lines_of(finding: LintFinding) -> str:
    """Return the other lines of a finding, a few of them by number."""
    lines = list(dict.fromkeys(place.line for place in finding.also))
    more = f" and {len(lines) - 10} more" if len(lines) > 10 else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:10]))}{more}"


def _as_short(findings: Sequence[LintFinding]) -> Iterator[str]:
    """Yield one line for each finding."""
    for finding in findings:
        place = finding.place
        also = f" (also {_lines_of(finding)})" if finding.also else ""
        where = f"{finding.path}:{place.line}:{place.column}"
        yield f"{where}: {finding.severity}: {finding.message}{also} [{finding.rule}]"


_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def _as_github(findings: Sequence[LintFinding]) -> Iterator[str]:
    """Yield the commands by which a step of a GitHub workflow writes beside the lines of a change."""
    for finding in findings:
        place, level = finding.place, _GITHUB[_LEVELS[finding.severity]]
        properties = {
            "file": finding.path, "line": place.line, "col": place.column, "endLine": place.end_line,
            "title": f"muster lint: {finding.rule}",
        }  # fmt: skip
        shown = ",".join(f"{key}={_escaped(str(value), ',:')}" for key, value in properties.items())
        yield f"::{level} {shown}::{_escaped(f'{finding.severity}: {finding.message}. {finding.instead}')}"


def _escaped(text: str, also: str = "") -> str:
    return "".join(f"%{ord(sign):02X}" if sign in f"%\r\n{also}" else sign for sign in text)


_GITLAB = {
    Severity.BREAKS: "critical", Severity.HANGS: "critical", Severity.SLOW: "major", Severity.FRAGILE: "minor",
    Severity.STYLE: "info",
}  # fmt: skip


def _as_gitlab(findings: Sequence[LintFinding]) -> Iterator[str]:
    """Yield a Code Quality report, as GitLab shows it beside a merge request."""
    entries, used = [], Counter[str]()
    for finding in findings:
        # Without the line's number: an entry stays the same where lines are added above it.
        identity = f"{finding.path}:{finding.rule}:{finding.message}"
        used[identity] += 1
        digest = hashlib.sha256(f"{identity}:{used[identity]}".encode("utf-8", "surrogateescape")).hexdigest()
        entries.append({
            "description": f"{finding.message}. {finding.instead}", "check_name": finding.rule, "fingerprint": digest,
            "severity": _GITLAB[finding.severity],
            "location": {"path": finding.path, "lines": {"begin": finding.place.line}},
        })  # fmt: skip
    yield json.dumps(entries, indent=2)


FORMS: Mapping[str, Callable[[Sequence[LintFinding]], Iterator[str]]] = {
    "short": _as_short,
    "github": _as_github,
    "gitlab": _as_gitlab,
}
"""The forms that are lines of text."""


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
    notes = sum(finding.rule == "template" for finding in findings)
    if len(findings) == notes:
        return f"{notes} template{'s' if notes > 1 else ''}, not judged" if notes else "nothing was found"
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
            "certain": finding.is_certain,
            "also": [{"line": place.line, "column": place.column} for place in finding.also],
        }
        for finding in findings
    ]


def as_sarif(findings: Sequence[LintFinding], unread: Sequence[UnreadFile] = ()) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log, as code hosts read it."""
    described = {rule.name: _described(rule) for rule in all_rules()}
    for finding in findings:  # those of a site, of shellcheck
        described.setdefault(finding.rule, _described_by(finding))
    results = [
        {
            "ruleId": finding.rule,
            "level": _LEVELS[finding.severity],
            "message": {"text": f"{finding.message}. {finding.instead}"},
            "locations": [_location(finding.path, finding.place)],
            **({"relatedLocations": [_location(finding.path, each) for each in finding.also]} if finding.also else {}),
        }
        for finding in findings
    ]
    notes = [
        {"level": "error", "message": {"text": f"{each.message}; {each.hint}"},
         "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(each.path)}}}]}
        for each in unread
    ]  # fmt: skip
    invocation = {"executionSuccessful": not unread, "toolExecutionNotifications": notes}
    driver = {"name": "muster lint", "version": __version__, "rules": list(described.values())}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "results": results,
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _described(rule: Rule) -> dict[str, Any]:
    address = address_of(rule.source)
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.instead} Source: {rule.source}"},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _described_by(finding: LintFinding) -> dict[str, Any]:
    address = address_of(finding.source)
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule},
        "fullDescription": {"text": finding.why},
        **({"helpUri": address} if address else {}),
    }


def _location(path: str, place: TextSpan) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(path)},
            "region": {
                "startLine": place.line,
                "startColumn": place.column,
                "endLine": place.end_line,
                "endColumn": place.end_column,
            },
        }
    }


def _uri(path: str) -> str:
    return re.sub(r"[ %?#]", lambda match: f"%{ord(match[0]):02X}", path)
