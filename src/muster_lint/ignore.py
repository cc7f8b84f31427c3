"""`# muster: ignore[rule] reason`: on its line, or on a line of its own above."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.rule import all_rules
from muster_lint.values import LintFinding, Severity, TextSpan

_MARK = re.compile(r"#\s*muster:\s*ignore\[(?P<names>[^\]]*)\](?P<reason>.*)")


def ignored_lines(text: str) -> dict[int, frozenset[str]]:
    """Return the rules that are ignored, by line."""
    ignored: dict[int, frozenset[str]] = {}
    for number, line, match in _marks(text):
        if not match["reason"].strip():
            continue
        alone = not line[: match.start()].strip()
        ignored[number + alone] = ignored.get(number + alone, frozenset()) | _names(match)
    return ignored


def wrong_marks(path: str, text: str) -> Iterator[LintFinding]:
    """Yield the marks that silence nothing: without a reason, or with the name of no rule."""
    for number, _, match in _marks(text):
        known_rules = {rule.name for rule in all_rules()} | {"not-python", "template"}
        unknown_names = sorted(
            name for name in _names(match) if name not in known_rules and not name.startswith("site-")
        )
        if unknown_names:
            message, hint = f"there is no rule {unknown_names[0]!r}", "`muster lint --rules` lists the rules."
        elif not match["reason"].strip():
            message, hint = "an ignored rule needs a reason", "Write # muster: ignore[rule] because …."
        else:
            continue
        place = TextSpan(number, match.start() + 1, number, match.end() + 1)
        why = "This comment silences nothing."
        yield LintFinding("bad-ignore", Severity.FRAGILE, path, place, message, why, hint, "muster lint --help")


def _marks(text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    if "muster:" in text:
        for number, line in enumerate(text.splitlines(), start=1):
            match = _MARK.search(line)
            if match is not None:
                yield number, line, match


def _names(match: re.Match[str]) -> frozenset[str]:
    return frozenset(name.strip() for name in match["names"].split(","))
