"""What a rule is, what it finds, and where: the values that all of `lint` speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from muster.older import StrEnum
from muster_lint.read import SourceFile


class Severity(StrEnum):
    """What a fault does to the job, the worst first."""

    BREAKS = "breaks"
    HANGS = "hangs"
    SLOW = "slow"
    FRAGILE = "fragile"
    STYLE = "style"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Severity).index(self)


class TextSpan(msgspec.Struct, frozen=True, order=True):
    """A stretch of a file; lines and columns count from 1, the end is the first column after it."""

    line: int
    column: int
    end_line: int
    end_column: int

    def is_within(self, around: TextSpan) -> bool:
        """Tell whether this begins inside another stretch."""
        start, end = (around.line, around.column), (around.end_line, around.end_column)
        return start <= (self.line, self.column) < end


class Edit(msgspec.Struct, frozen=True):
    """Replace what stands at a place; an empty stretch is an insertion."""

    place: TextSpan
    text: str


class Hit(msgspec.Struct, frozen=True):
    """One place where a rule is broken; what differs from the rule's own text is written here."""

    place: TextSpan
    message: str
    instead: str | None = None
    edits: tuple[Edit, ...] = ()
    """What `--fix` writes: only where the result is certain."""

    unknown: str = ""
    """What the fault depends on and nobody read: a variable, a site, a file. Empty: it follows from the file alone."""

    severity: Severity | None = None
    """Where this place is better or worse than the rule says."""


class Rule(msgspec.Struct, frozen=True):
    """One fault: how it is found, what it does, what to write instead, and who says so."""

    name: str
    severity: Severity
    title: str
    why: str
    instead: str
    source: str
    bad: str
    """A whole file that breaks this rule."""

    good: str
    """The same file as it should be."""

    check: Callable[[Any], Iterator[Hit]]
    language: str = "batch"


class LintFinding(msgspec.Struct, frozen=True):
    """A broken rule in a file, ready to be shown."""

    rule: str
    severity: Severity
    path: str
    place: TextSpan
    message: str
    why: str
    instead: str
    source: str
    edits: tuple[Edit, ...] = ()
    also: tuple[TextSpan, ...] = ()
    """Where else in the file the same thing stands, once the findings are grouped."""

    unknown: str = ""
    """What the finding depends on and nobody read."""

    @property
    def is_certain(self) -> bool:
        """Tell whether the finding follows from what was read."""
        return not self.unknown


class UnreadFile(msgspec.Struct, frozen=True):
    """A file that could not be looked at, and why."""

    path: str
    message: str
    hint: str


class LintResult(msgspec.Struct, frozen=True):
    """What came out of a look at several files: one file never ends the look at the others."""

    findings: tuple[LintFinding, ...]
    unread: tuple[UnreadFile, ...]
    sources: tuple[SourceFile, ...] = ()
    """The files that were looked at."""
