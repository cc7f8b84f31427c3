"""The shell texts that scripts are put together from: files beside this one, read as code is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from muster.launchers.base import Part

__all__ = ["compose", "part"]


@cache
def part(name: Part) -> str:
    """Return one file of render/shell, of rank/ where the name says that it is Python, or a launcher's own by path."""
    here = Path(__file__)
    if isinstance(name, Path):
        return name.read_text(encoding="utf-8")
    file = here.parents[1] / "rank" / name if name.endswith(".py") else here.with_name("shell") / f"{name}.sh"
    return file.read_text(encoding="utf-8")


def compose(names: Iterable[Part]) -> str:
    """Several parts as one text."""
    return "\n".join(part(name) for name in names)
