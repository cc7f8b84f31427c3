"""What the five documents say that people copy from, and what became of each line: data, checked like a profile."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Literal

import msgspec

from muster.errors import ProfileError
from muster.sites.text import parse_toml, read_text

DOCUMENTS = Path(__file__).parent / "by_hand"


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a document says or asks."""

    says: str
    kind: Literal["variable", "flag", "module", "bind", "workaround", "step", "question", "result", "version"]
    verdict: Literal["kept", "kept when", "changed", "dropped", "answered"]
    reason: str
    when: str | None = None
    """For `kept when`: when."""

    now: str | None = None
    """What holds instead, or the answer."""

    key: str | None = None
    """Key of the profile that says so."""

    command: str | None = None
    """The command that does it now."""

    gone: bool = False
    """True: it no longer holds on the machine of today."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One document."""

    name: str
    title: str
    sites: tuple[str, ...]
    at: str
    dated: dt.date
    items: tuple[Item, ...]


def document(path: Path) -> Document:
    """Return the document of a file."""
    try:
        return msgspec.convert(parse_toml(read_text(path), str(path)), Document)
    except msgspec.ValidationError as error:
        raise ProfileError(str(error), str(path), hint="see Item and Document in tests/sites/documents.py") from None


def documents() -> list[Document]:
    """Return all documents by name."""
    return [document(path) for path in sorted(DOCUMENTS.glob("*.toml"))]
