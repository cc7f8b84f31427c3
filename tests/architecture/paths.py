"""Where things lie in the checkout, and the modules that are ours."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "muster"


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a source. Many tests look at all of them, and nobody changes one."""
    return ast.parse(source)


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Return every node of the tree of a source."""
    return tuple(ast.walk(parsed(source)))


def module_names(under: Path = SOURCE) -> list[str]:
    """Return every module of Muster below `under`, but `__main__`, which is a program."""
    found = []
    for file in sorted(under.rglob("*.py")):
        if file.name == "__main__.py":
            continue
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found
