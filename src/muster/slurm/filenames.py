"""sbatch's patterns in the names of output files: %j, %x, %A … Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["glob_of"]

_PATTERN = re.compile(r"%(?:%|(?P<width>[0-9]{0,2})(?P<letter>[A-Za-z]))")
_MAGIC = re.compile(r"[*?[]")


def glob_of(pattern: str, known: Mapping[str, str]) -> str:
    """Return the files that `pattern` stands for, as a glob: `known` letters are filled in, the others become "*".

    %5j is the job id on five digits. A name that holds a backslash is taken as it is, as sbatch does.
    """
    if "\\" in pattern:
        return _escaped(pattern.replace("\\", ""))
    found, end = "", 0
    for each in _PATTERN.finditer(pattern):
        found += _escaped(pattern[end : each.start()]) + _filled(each, known)
        end = each.end()
    return found + _escaped(pattern[end:])


def _filled(found: re.Match[str], known: Mapping[str, str]) -> str:
    letter = found["letter"]
    if letter is None:
        return "%"
    value = known.get(letter)
    if value is None:
        return "*"
    width = min(int(found["width"] or 0), 10)
    return _escaped(value.zfill(width) if value.isdigit() else value)


def _escaped(text: str) -> str:
    return _MAGIC.sub(lambda found: f"[{found[0]}]", text)
