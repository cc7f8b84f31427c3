"""The shell texts that scripts are put together from: files beside this one, read as code is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["compose", "part"]


@cache
def part(name: str) -> str:
    """One file of render/shell."""
    return Path(__file__).with_name("shell").joinpath(f"{name}.sh").read_text(encoding="utf-8")


def compose(names: Iterable[str]) -> str:
    """Several parts as one text."""
    return "\n".join(part(name) for name in names)
