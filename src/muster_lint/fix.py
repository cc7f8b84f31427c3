"""Findings with edits → the text as it should be. Only what is certain is edited."""

from __future__ import annotations

from collections.abc import Iterable

from muster_lint.values import Edit, LintFinding, TextSpan


def fixed_text(text: str, findings: Iterable[LintFinding]) -> str:
    """Return the text after every edit; of two that touch the same place the first counts."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return min(starts[min(line - 1, len(lines))] + column - 1, len(text))

    edits = sorted({edit for finding in findings for edit in finding.edits}, key=lambda edit: (edit.place, edit.text))
    for edit in reversed(_apart(edits)):
        place = edit.place
        begin, end = offset(place.line, place.column), offset(place.end_line, place.end_column)
        text = text[:begin] + edit.text + text[end:]
    return text


def _apart(edits: list[Edit]) -> list[Edit]:
    """Return the edits that do not touch each other; insertions at one place all count."""
    kept_edits: list[Edit] = []
    for edit in edits:
        if (
            not kept_edits
            or _ends_before(kept_edits[-1].place, edit.place)
            or (_is_insertion(edit) and _is_insertion(kept_edits[-1]))
        ):
            kept_edits.append(edit)
    return kept_edits


def _ends_before(first: TextSpan, second: TextSpan) -> bool:
    return (first.end_line, first.end_column) <= (second.line, second.column)


def _is_insertion(edit: Edit) -> bool:
    place = edit.place
    return (place.line, place.column) == (place.end_line, place.end_column)
