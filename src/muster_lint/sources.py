"""Who says so: documents that can be opened again, by the names that the rules use (sources.toml)."""

from __future__ import annotations

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
