"""The shell texts that scripts are put together from: files beside this one, read as code is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from os import path as paths

from muster.launchers.base import Part
from muster.model.words import in_lines
from muster.rank.vendors import VENDORS, VISIBLE

# Comments and docstrings: Open MPI takes a command line of 128 KiB, and all texts stand in it beside the user's words.
# And what a piece of a text imports from another piece, which stands above it.
_NO_CODE = r'(?m)^\s*(?:#[^\n]*|"""(?s:.)*?"""|from \.\w+ import [^\n]*)?\n'

SHELL = paths.join(paths.dirname(__file__), "shell")
_RANK = paths.join(paths.dirname(paths.dirname(__file__)), "rank")
ROOMS = ("begin", "step", "rank", "image", "stage", "again", "nodes")
"""The rooms of the shell parts; each part has a name that no other room has."""


@cache
def part_files() -> dict[str, str]:
    """Return the files of render/shell by the names of their parts."""
    # Nothing is asked of the file system but names: rendering may look at nothing else (test_effects).
    return {name[:-3]: f"{SHELL}/{room}/{name}" for room in ROOMS for name in sorted(os.listdir(f"{SHELL}/{room}"))}


@cache
def part(name: Part) -> str:
    """Return one file of render/shell, of rank/ where the name says that it is Python, or a launcher's own by path."""
    if not isinstance(name, str):
        return _text_of(name)
    if name.endswith(".py"):
        return re.sub(_NO_CODE, "", _text_of(f"{_RANK}/{name}"))
    return with_vendors(_text_of(part_files()[name]))


def _text_of(file: Part) -> str:
    with open(file, encoding="utf-8") as stream:
        return stream.read()


def with_vendors(text: str) -> str:
    """Return a text with the words of the table of vendors in place of @VISIBLE@ and the like."""
    for place in _PLACES:
        if place in text:
            text = text.replace(place, _words_of_places()[place])
    return text


_PLACES = ("@VISIBLE@", "@ANY_VISIBLE@", "@VISIBLE_FIRST@", "@SIGNS@", "@TORCH_VERSIONS@")


@cache
def _words_of_places() -> dict[str, str]:
    signs = " ".join(word for vendor in VENDORS for word in (vendor.kind, *vendor.signs))
    return {
        "@VISIBLE@": " ".join(VISIBLE),
        "@ANY_VISIBLE@": "".join(f"${{{name}:-" for name in VISIBLE) + "}" * len(VISIBLE),
        "@VISIBLE_FIRST@": " ".join(vendor.visible[0] for vendor in VENDORS),
        "@SIGNS@": " \\\n        ".join(in_lines(signs, 90)),
        "@TORCH_VERSIONS@": "\n".join(f"        {row.torch_version}*=*) muster_found={row.kind} ;;" for row in VENDORS),
    }


def compose(names: Iterable[Part]) -> str:
    """Return several parts as one text: a comment begins each of them."""
    return "".join(part(name) for name in names)


def kept(variable: str, text: str, common: str = "") -> str:
    """Return the assignment of a text to a variable; what all have in common stands in another already."""
    prefix = ""
    if common:
        text, prefix = text.removeprefix(common), "$muster_common$'\\n'"
    # Bash reads it by itself: `cat` would cost a process.
    return f"{{ {variable}={prefix}$(</dev/stdin); }} <<'MUSTER_TEXT'\n{text}MUSTER_TEXT"
