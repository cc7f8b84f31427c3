"""`# muster: ignore[rule] reason`: on its line, or on a line of its own above."""

from __future__ import annotations

import re

from muster.errors import RequestError
from muster_lint.rule import all_rules

_MARK = re.compile(r"#\s*muster:\s*ignore\[(?P<names>[^\]]*)\](?P<reason>.*)")


def ignored_lines(text: str) -> dict[int, frozenset[str]]:
    """Return the rules that are ignored, by line."""
    if "muster:" not in text:
        return {}
    ignored: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _MARK.search(line)
        if match is None:
            continue
        names = frozenset(name.strip() for name in match["names"].split(","))
        _check(names, match["reason"].strip(), number)
        alone = not line[: match.start()].strip()
        ignored[number + alone] = ignored.get(number + alone, frozenset()) | names
    return ignored


def _check(names: frozenset[str], reason: str, line: int) -> None:
    known_rules = {rule.name for rule in all_rules()} | {"not-python"}
    for name in sorted(names):
        if name not in known_rules and not name.startswith("site-"):
            raise RequestError(f"line {line}: there is no rule {name!r}", hint="muster lint --rules lists them")
    if not reason:
        raise RequestError(f"line {line}: an ignored rule needs a reason", hint="# muster: ignore[rule] because …")
