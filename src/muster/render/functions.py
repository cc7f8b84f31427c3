"""The functions of Muster's own shell text, each with the comment above it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_DEFINITION = re.compile(r"^(?P<comment>(?:^#[^\n]*\n)*)(?P<name>muster_[a-z_0-9]+)\(\)", re.MULTILINE)


def functions_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the comment of each function, in their order; a line for a checker is not a comment."""
    for match in _DEFINITION.finditer(text):
        yield match["name"], _sentences(match["comment"])


def opening_of(text: str) -> str:
    """Return the comment with which a text opens that is more than functions; empty where it is a function's."""
    match = re.match(r"(?:#[^\n]*\n)+(?!muster_[a-z_0-9]+\(\))", text)
    return _sentences(match[0]) if match and not _DEFINITION.match(text) else ""


def _sentences(comment: str) -> str:
    lines = (line.removeprefix("#").strip() for line in comment.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("shellcheck "))
