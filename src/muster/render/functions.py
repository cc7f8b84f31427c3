"""The functions of Muster's own shell text, each with the comment above it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_DEFINITION = re.compile(r"^(?P<comment>(?:^#[^\n]*\n)*)(?P<name>muster_[a-z_0-9]+)\(\)", re.MULTILINE)

FUNCTION = re.compile(
    r"^(?:#[^\n]*\n)*(?P<name>muster_[a-z_0-9]+)\(\) *(?:\{[^\n]*\}|\{\n.*?^\})[^\n]*\n\n?", re.MULTILINE | re.DOTALL
)
"""A function of a shell part, with the comment above it and the empty line behind it."""

_COMMENT = re.compile(r"^ *#[^\n]*\n", re.MULTILINE)
_NAME = re.compile(r"muster_[a-z_0-9]+")


def without_unused(text: str, callers: str) -> str:
    """Return a text without those of its functions that neither `callers` nor the rest of the text names."""
    functions = {match["name"]: match[0] for match in FUNCTION.finditer(text)}
    names, needed = _names(callers + FUNCTION.sub("", text)), set[str]()
    while more := (names & functions.keys()) - needed:
        needed |= more
        names = names.union(*(_names(functions[name]) for name in more))
    return FUNCTION.sub(lambda match: match[0] if match["name"] in needed else "", text)


def _names(text: str) -> set[str]:
    return set(_NAME.findall(_COMMENT.sub("", text)))


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
