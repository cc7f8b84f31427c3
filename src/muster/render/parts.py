"""The shell texts that scripts are put together from: files beside this one, read as code is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from muster.launchers.base import Part

__all__ = ["compose", "part"]


# Comments and docstrings: Open MPI takes a command line of 128 KiB, and all texts stand in it beside the user's words.
_NO_CODE = re.compile(r'^\s*(?:#[^\n]*|"""(?:.|\n)*?""")?\n', re.MULTILINE)


@cache
def part(name: Part) -> str:
    """Return one file of render/shell, of rank/ where the name says that it is Python, or a launcher's own by path."""
    here = Path(__file__)
    if isinstance(name, Path):
        return name.read_text(encoding="utf-8")
    if name.endswith(".py"):
        return _NO_CODE.sub("", (here.parents[1] / "rank" / name).read_text(encoding="utf-8"))
    return here.with_name("shell").joinpath(f"{name}.sh").read_text(encoding="utf-8")


def compose(names: Iterable[Part]) -> str:
    """Several parts as one text."""
    return "\n".join(part(name) for name in names)
