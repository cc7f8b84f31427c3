"""Where the keys of a TOML text stand: key path → line, so that an error and an origin can name it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Union

Path = tuple[Union[str, int], ...]

_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEY})\s*=")
_TOKEN = re.compile(r'''"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[\]{}]''')


@lru_cache(maxsize=128)
def toml_lines(text: str) -> Mapping[Path, int]:
    """Return the line, from 1, of every table and of every key that stands on a line of its own."""
    line_numbers: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    prefix: Path = ()
    depth = 0
    quotes = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not quotes and depth == 0:
            header = _HEADER.match(line)
            if header:
                prefix = _header_path(header[1], _split(header[2]), counts)
                line_numbers.setdefault(prefix, number)
                continue
            assignment = _ASSIGNMENT.match(line)
            if assignment:
                line_numbers.setdefault((*prefix, *_split(assignment[1])), number)
                line = line[assignment.end() :]  # noqa: PLW2901  # the rest of this line is the value
        depth, quotes = _after(line, depth, quotes)
    return line_numbers


def _header_path(brackets: str, parts: Path, counts: dict[Path, int]) -> Path:
    """Return the path of a table, with the number of its element where a part is an array of tables."""
    path: Path = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        last = position == len(parts) - 1
        if last and brackets == "[[":
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _split(key: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))


def _after(line: str, depth: int, quotes: str) -> tuple[int, str]:
    """Return bracket depth and open multi-line quotes after this line."""
    position = 0
    while position < len(line):
        if quotes:
            end = line.find(quotes, position)
            if end < 0:
                return depth, quotes
            position, quotes = end + 3, ""
            continue
        token = _TOKEN.search(line, position)
        if token is None:
            break
        position = token.end()
        if token[0] in {'"""', "'''"}:
            quotes = token[0]
        elif token[0] in {"[", "{"}:
            depth += 1
        elif token[0] in {"]", "}"}:
            depth = max(0, depth - 1)
    return depth, quotes


def toml_line(lines: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of this key, else the first one below it, else of the nearest table or key around it."""
    if path in lines:
        return lines[path]
    numbers_below = [number for line_path, number in lines.items() if line_path[: len(path)] == path]
    if numbers_below:
        return min(numbers_below)
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def spell(path: Path) -> str:
    """Return the path as a person writes it: environment[3].value."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text
