"""Findings with edits → the text as it should be. An edit that is not certain to help is not made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from muster_lint.bash import ask_bash
from muster_lint.values import Edit, LintFinding, Severity, TextSpan

_ROUNDS = 5


Look = Callable[[str], Sequence[LintFinding]]


def settled_text(text: str, look: Look) -> tuple[str, list[LintFinding]]:
    """Return the text after all edits that are certain, and the findings that are gone.

    A second call changes nothing.
    """
    repaired: list[LintFinding] = []
    if len(text.splitlines()) != text.count("\n") + (not text.endswith("\n")):
        return text, repaired  # a sign inside it ends a line for some readers and not for others: places are uncertain
    for _ in range(_ROUNDS):
        before = look(text)
        taken: list[LintFinding] = []
        for finding in [finding for finding in before if finding.edits]:
            if is_certain(text, before, [*taken, finding], look):
                taken.append(finding)
        if not taken:
            return text, repaired
        text = fixed_text(text, taken)
        repaired += taken
    return text, repaired


def is_certain(text: str, before: Sequence[LintFinding], edited: Sequence[LintFinding], look: Look) -> bool:
    """Tell whether these edits help: bash reads the result, their findings are gone, and nothing worse is found."""
    better = fixed_text(text, edited)
    asked = ask_bash(better)
    return asked is not None and asked.ok and _helps(before, look(better), edited)


def _helps(before: Sequence[LintFinding], after: Sequence[LintFinding], edited: Sequence[LintFinding]) -> bool:
    """Tell whether each edited finding is gone, and no rule that breaks or hangs speaks more often than before."""
    old, new = _counts(before), _counts(after)
    gone = Counter(finding.rule for finding in edited)
    serious = {finding.rule for finding in after if finding.severity in {Severity.BREAKS, Severity.HANGS}}
    return all(new[rule] <= old[rule] - count for rule, count in gone.items()) and all(
        new[rule] <= old[rule] for rule in serious
    )


def _counts(findings: Iterable[LintFinding]) -> Counter[str]:
    return Counter(finding.rule for finding in findings)


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
        if not kept_edits or _ends_before(kept_edits[-1].place, edit.place):
            kept_edits.append(edit)
    return kept_edits


def _ends_before(first: TextSpan, second: TextSpan) -> bool:
    return (first.end_line, first.end_column) <= (second.line, second.column)
