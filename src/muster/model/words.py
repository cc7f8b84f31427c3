"""Words of a command, and the kinds of text in a script: what a person gave, and what we wrote for the shell.

The only place that quotes. Text from a user, a profile or a file is a `str` and reaches the program byte for
byte; a `Fragment` is ours and the shell expands it; a `Template` is a user's text with gaps only the job can fill.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Union

import msgspec

# What a value may leave open until the job runs, and the shell expression that stands for it in a script.
PLACEHOLDERS = {
    "job_id": '"$muster_job"',
    "run_dir": '"$muster_run_dir"',
    "node_tmp": '"${TMPDIR:-/tmp}"',
}
# Of a table's columns, in the script: $row_lr.
COLUMN_PREFIX = "row_"
WIDTH = 120
_PLACEHOLDER = r"\{(" + "|".join(PLACEHOLDERS) + r")\}"


class Fragment(msgspec.Struct, frozen=True):
    """Shell text that must expand, written by us and never by the user."""

    text: str


class Template(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A user's text in which {job_id}, {run_dir} and {node_tmp} stand for what only the job knows; `$` stays `$`."""

    text: str
    columns: tuple[str, ...] = ()
    """Of a table: {lr} stands for the value in the row of this task. Of a job's roles: {serve.url} for the address."""

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with every gap filled whose value is given."""
        return _gap(self.columns).sub(lambda match: values.get(match[1], match[0]), self.text)


class Hidden(msgspec.Struct, frozen=True):
    """A value that stands in no text: no script, no plan that is shown, no argument. The act hands it to the job."""

    text: str

    def __repr__(self) -> str:
        return "Hidden(…)"


Word = Union[str, Fragment, Hidden, Template]


def template(text: str) -> Word:
    """Return a user's value: a Template where it leaves something open, else the text itself."""
    return Template(text) if "{" in text and re.search(_PLACEHOLDER, text) else text


def quote(word: Word) -> str:
    """Return the word as it stands in a script."""
    if isinstance(word, Fragment):
        return word.text
    if isinstance(word, Hidden):
        raise TypeError("a hidden value stands in no script")
    if isinstance(word, Template):
        pieces = _gap(word.columns).split(word.text)
        words = [shlex.quote(piece) if index % 2 == 0 else _expression(piece) for index, piece in enumerate(pieces)]
        return "".join(piece for piece in words if piece != "''")
    return shlex.quote(word)


def _gap(columns: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of what a text leaves open."""
    names = tuple(map(re.escape, columns))
    # ${lr} is the shell's, or Hydra's.
    return re.compile(r"(?<!\$)\{(" + "|".join((*PLACEHOLDERS, *names)) + r")\}" if names else _PLACEHOLDER)


def _expression(name: str) -> str:
    """Return the shell expression that fills a gap."""
    if "." in name:
        return f'"$MUSTER_{name.upper().replace(".", "_")}"'
    return PLACEHOLDERS.get(name) or f'"${COLUMN_PREFIX}{name}"'


def noted(text: str, note: str, *, indent: int = 4) -> tuple[str, ...]:
    """Return a line of a script with a few words behind it, or above it where the line is long."""
    if not note:
        return (text,)
    behind = f"{text}  # {note}"
    fits = "\n" not in text and indent + len(behind) <= WIDTH
    return (behind,) if fits else (f"# {note}", text)


def named(name: str, word: Word | int) -> Fragment:
    """Return NAME=WORD, as functions of the script read their words."""
    return Fragment(f"{name}={word if isinstance(word, int) else quote(word)}")


def line(words: Iterable[Word]) -> str:
    """Return words as one line of a script."""
    return " ".join(quote(word) for word in words)


def in_lines(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Return a text in lines of at most `width` letters, whole words on each: `first` begins the first, `others` the
    others. `textwrap` would compile four patterns for this at every launch.
    """
    lines: list[str] = []
    for word in text.split(" ") if text else ():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{others if lines else first}{word}")
    return lines


def fold(words: Iterable[Word], *, indent: int = 4) -> str:
    """Return a command over as many lines as it needs, none wider than a page where its words allow that.

    `indent` is where the script puts the first line. What is started in turn (sh) begins a line of its own.
    """
    lines: list[str] = []
    width = WIDTH
    for piece in map(quote, words):
        room = WIDTH - (indent if len(lines) < 2 else indent + 4) - len(" \\")
        if lines and piece != "sh" and width + 1 + len(piece) <= room:
            lines[-1] += f" {piece}"
            width += 1 + len(piece)
            continue
        rendered_lines = _broken(piece, room)
        lines.append(rendered_lines)
        width = len(rendered_lines.rpartition("\n")[2])
    return f" \\\n{' ' * (indent + 4)}".join(lines)


def _broken(piece: str, room: int) -> str:
    """Return a long list (masks of CPUs, mounts), or a sentence, over several lines, which the shell joins again."""
    if len(piece) <= room:
        return piece
    if re.fullmatch(_SENTENCE, piece):
        items = [item for part in re.findall(_QUOTED, piece) for item in _quoted_words(part)]
    elif re.fullmatch(_LIST, piece):
        items = re.findall(_ITEM, piece)
    else:
        return piece
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > room:
            lines.append("")
        lines[-1] = lines[-1][:-1] + item[1:] if lines[-1].endswith("'") and item.startswith("'") else lines[-1] + item
    return "\\\n".join(lines)


def _quoted_words(part: str) -> list[str]:
    """Return the words of a text in quotes, each in quotes of its own."""
    return [f"'{word}'" for word in re.findall(r"\S*\s+|\S+", part[1:-1])] if part.startswith("'") else [part]


# Outside of quotes a backslash at the end of a line joins two lines.
_QUOTED = r"""'[^'\n]*'|"[^"\n`()]*\""""
_ITEM = rf"(?:{_QUOTED}|[\w@%+=:./$-])+,?|,"
_SENTENCE = rf"(?:{_QUOTED})+"
_LIST = rf"(?:{_QUOTED}|[\w@%+=:./$,-])+"
