"""sbatch's patterns in the names of output files: %j, %x, %A … Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PATTERN = re.compile(r"%(?:%|(?P<width>[0-9]{0,2})(?P<letter>[A-Za-z]))")
_MAGIC = re.compile(r"[*?[]")


def glob_of(pattern: str, values: Mapping[str, str]) -> str:
    """Return the files that `pattern` stands for, as a glob: `known` letters are filled in, the others become "*".

    %5j is the job id on five digits. A name that holds a backslash is taken as it is, as sbatch does.
    """
    if "\\" in pattern:
        return _escaped(pattern.replace("\\", ""))
    glob, end = "", 0
    for match in _PATTERN.finditer(pattern):
        glob += _escaped(pattern[end : match.start()]) + _filled(match, values)
        end = match.end()
    return glob + _escaped(pattern[end:])


def _filled(match: re.Match[str], values: Mapping[str, str]) -> str:
    letter = match["letter"]
    if letter is None:
        return "%"
    value = values.get(letter)
    if value is None:
        return "*"
    width = min(int(match["width"] or 0), 10)
    return _escaped(value.zfill(width) if value.isdigit() else value)


def _escaped(text: str) -> str:
    return _MAGIC.sub(lambda match: f"[{match[0]}]", text)
