"""Who says so: documents that can be opened again, by the names that the rules use (sources.toml)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from muster.older import tomllib


@cache
def _documents() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def __getattr__(name: str) -> str:
    """Return the document of this name."""
    try:
        return _documents()[name]
    except KeyError:
        raise AttributeError(name) from None


_PLACE = re.compile(r"([\w.-]+/[\w.-]+) ([\w./-]+\.\w+)(?: @([0-9a-f]{7,40}))?")


def address_of(source: str) -> str | None:
    """Return where a document can be opened: a file of a public repository, at its commit; None for another form."""
    if source.startswith("shellcheck SC"):
        return f"https://www.shellcheck.net/wiki/{source.partition(' ')[2]}"
    match = _PLACE.match(source)
    return None if match is None else f"https://github.com/{match[1]}/blob/{match[3] or 'HEAD'}/{match[2]}"
