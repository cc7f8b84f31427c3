"""The shell texts that scripts are put together from: files beside this one, read as code is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["compose", "part"]


@cache
def part(name: str) -> str:
    """Return the text of one file of render/shell; of rank/, where the name says that it is Python."""
    here = Path(__file__)
    file = here.parents[1] / "rank" / name if name.endswith(".py") else here.with_name("shell") / f"{name}.sh"
    return file.read_text(encoding="utf-8")


def compose(names: Iterable[str]) -> str:
    """Several parts as one text."""
    return "\n".join(part(name) for name in names)
