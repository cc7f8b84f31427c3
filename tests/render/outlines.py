"""How golden files keep a script: whole, or the job with the names of the parts that stand below the line of dashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from textwrap import wrap

from muster.render.functions import FUNCTION
from muster.render.parts import part, part_files
from muster.render.script import RULE


def without_digests(script: str) -> str:
    """Return a script without the version and the digests, which follow every field and have tests of their own."""
    script = re.sub(r"^(# Written by muster )[\w.]+", r"\1VERSION", script, flags=re.MULTILINE)
    script = re.sub(r"\([\w.]+, sha256 [0-9a-f]{8}\)", "(VERSION, sha256 DIGEST)", script)
    return re.sub(r"comment=muster:[0-9a-f]{12}", "comment=muster:DIGEST", script)


def outline(script: str) -> str:
    """Return the job; of the text below the line of dashes the names of its parts, and every line that is no part's."""
    job, rule, own_text = without_digests(script).partition(f"{RULE}\n")
    return "".join((job, rule, *_outline_of(own_text)))


def _outline_of(own_text: str) -> Iterator[str]:
    names: list[str] = []
    for line in _with_names(own_text).splitlines():
        if line.startswith(_PART):
            names += [line[len(_PART) :]] if names[-1:] != [line[len(_PART) :]] else []
        elif line:
            yield from _paragraph(names)
            names = []
            yield from (f"{each}\n" for each in wrap(line, 119, subsequent_indent="    ", break_on_hyphens=False))
    yield from _paragraph(names)


def _paragraph(names: list[str]) -> Iterator[str]:
    if names:
        yield from (
            f"{line}\n" for line in wrap(", ".join(names), 119, initial_indent="#   ", subsequent_indent="#   ")
        )


_PART = "# (the part) "
# What every script says in the same words: it stands whole in srun.sh, torchrun.sh and mpirun.sh.
_OF_ALL = (
    (r"^# What every started process.*\n", ""),
    (r"(?:^#.*\n)*^muster_forget\(\) \{\n(?:    .*\n)+\}\n", f"{_PART}muster_forget\n"),
    (r"^(\w+)=(?:\$muster_common\$'\\n')?\$\(\n    cat <<'MUSTER_TEXT'\n", r"# in the text \1:\n"),
    (r"^MUSTER_TEXT\n\)\n", ""),
    (r'^eval "\$muster_common"\n', "# in the script:\n"),
    (r"^job\n", ""),
)


def _with_names(own_text: str) -> str:
    for name in _longest_first():
        own_text = own_text.replace(part(name), f"{_PART}{name}\n")
    # Of some parts a script has only the functions that it calls.
    for name, text in _pieces():
        own_text = own_text.replace(text, f"{_PART}{name}\n")
    for pattern, words in _OF_ALL:
        own_text = re.sub(pattern, words, own_text, flags=re.MULTILINE)
    return own_text


@cache
def _pieces() -> tuple[tuple[str, str], ...]:
    """Return the first comment and all functions of all parts, each with the name of its part."""
    opening = re.compile(r"\A(?:#.*\n)+(?=\n)")
    matches = ((name, each) for name in part_files() for by in (opening, FUNCTION) for each in by.finditer(part(name)))
    return tuple((name, each[0].rstrip("\n") + "\n") for name, each in matches)


@cache
def _longest_first() -> tuple[str, ...]:
    """Return the names of all parts: a long one may hold the text of a short one."""
    return tuple(sorted(("agent_keeper.py", "agent_plain.py", *part_files()), key=lambda name: -len(part(name))))
