"""Known errors: a line that programs really write, what is behind it, and what to do. The data is signatures.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

import msgspec


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One known error."""

    id: str
    family: str
    """Who writes it: NCCL, Slurm, torch …"""

    any_of: tuple[str, ...]
    """Plain words, one of which every match holds: looked for first, in a mebibyte at once."""

    pattern: str
    """Regular expression, searched in one line."""

    cause: str
    """May hold the pattern's named groups: "{host}"."""

    remedy: str
    source: str
    """Where the line was read: an address, or the program and version that writes it."""

    line: str
    """A line that matches, as its source writes it."""

    miss: str
    """A line that is like it and must not match."""

    echo: bool = False
    """It follows when another rank has failed: it explains nothing while there is something else."""

    peer_gone: bool = False
    """It says that another rank has gone: what ended that rank came before."""

    about_network: bool = False
    """It says nothing more once the log shows which network was chosen, and that this one is right."""

    of_node: bool = False
    """Its cause belongs to the node: `submit` excludes the node from the next jobs."""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @cached_property
    def words(self) -> tuple[bytes, ...]:
        """Return `any_of` as it stands in a file."""
        return tuple(word.encode() for word in self.any_of)

    def may_be_in(self, text: bytes) -> bool:
        """Return whether the text holds one of the words without which nothing matches."""
        return any(word in text for word in self.words)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: tuple[Signature, ...]


@cache
def signatures() -> tuple[Signature, ...]:
    """Return all signatures, in the order of the file: of two on one line the earlier one counts."""
    text = Path(__file__).with_name("signatures.toml").read_bytes()
    return msgspec.toml.decode(text, type=_File).signature


def tells_of_peer(lines: Iterable[str]) -> bool:
    """Return whether these lines say that another rank has gone, and no known error that comes before that."""
    matching_signatures = [
        signature for line in lines for signature in signatures() if signature.expression.search(line)
    ]
    return any(signature.peer_gone for signature in matching_signatures) and all(
        signature.echo for signature in matching_signatures
    )
