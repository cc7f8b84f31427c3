"""A script and the modules beside it that it imports, as syntax trees. Reads files, runs nothing."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator
from functools import lru_cache
from os import path as paths

from muster.ownership import AnyPath

# A project's own modules that a script imports; what is looked for often lies in one of them.
_MOST_FILES = 50


def read_sources(script: AnyPath) -> Iterator[tuple[str, ast.Module]]:
    """Yield (path as a sentence shows it, tree) of the script first; nothing of what cannot be read or parsed."""
    first = os.fspath(script)
    folder = paths.dirname(first)
    waiting, visited = [first], {first}
    while waiting and len(visited) <= _MOST_FILES:
        file = waiting.pop(0)
        tree = _tree(file)
        if tree is None:
            continue
        yield file[len(folder) :].lstrip("/"), tree
        for module in imported_modules(tree):
            stem = paths.join(folder, *module.split("."))
            for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
                if candidate not in visited and paths.isfile(candidate):
                    visited.add(candidate)
                    waiting.append(candidate)


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each module that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def name_called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _tree(file: AnyPath) -> ast.Module | None:
    try:
        return parse_file(file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # whoever runs it will be told
        return None


def parse_file(file: AnyPath) -> ast.Module:
    """Return the syntax tree of a file, or raise what `ast.parse` does. While the file is the same it is read once."""
    status = os.stat(file)
    return _parse(os.fspath(file), status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=_MOST_FILES)
def _parse(file: str, *_state: int) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open(file, "rb") as stream:
            return ast.parse(stream.read())
