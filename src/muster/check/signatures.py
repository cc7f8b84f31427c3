"""Known errors: a line that programs really write, what is behind it, and what to do. The data is signatures.toml."""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path

import msgspec

__all__ = ["Signature", "signatures"]


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One known error."""

    id: str
    family: str
    """Who writes it: NCCL, Slurm, torch …"""

    pattern: str
    """Regular expression, searched in one line."""

    cause: str
    remedy: str
    source: str
    """Where `line` was recorded: an address, or the program and version that wrote it for us."""

    line: str
    """A recorded line that matches."""

    miss: str
    """A line that is like it and must not match."""

    echo: bool = False
    """It follows when another rank has failed: it explains nothing while there is something else."""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @cached_property
    def literal(self) -> bytes:
        """The longest text that every match holds."""
        return _longest_literal(self.pattern).encode()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: tuple[Signature, ...]


@cache
def signatures() -> tuple[Signature, ...]:
    """All of them, in the order of the file: of two on one line the earlier speaks."""
    text = Path(__file__).with_name("signatures.toml").read_bytes()
    return msgspec.toml.decode(text, type=_File).signature


def _longest_literal(pattern: str) -> str:
    """Plain text of the pattern outside of groups, classes and what may be missing."""
    parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]  # the one place that knows what is literal
    best = current = ""
    for kind, value in parsed:
        if kind is re._constants.LITERAL:  # type: ignore[attr-defined]
            current += chr(value)
            best = max(best, current, key=len)
        else:
            current = ""
    return best
