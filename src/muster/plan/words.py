"""Words of a command, and the two kinds of text in a script: what a person gave, and what we wrote for the shell.

The only place that quotes. Text from a user, a profile or a file is a `str` and reaches the program byte for
byte; a `Fragment` is ours and the shell expands it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Fragment", "Word", "line", "quote", "template"]


@dataclass(frozen=True)
class Fragment:
    """Shell text that must expand, written by us and never by the user."""

    text: str


Word = str | Fragment

# What a value may leave open until the job runs, and the shell expression that stands for it.
PLACEHOLDERS = {
    "job_id": '"$muster_job"',
    "run_dir": '"$muster_run_dir"',
    "node_tmp": '"${TMPDIR:-/tmp}"',
}
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


def quote(word: Word) -> str:
    """The word as it stands in a script."""
    return word.text if isinstance(word, Fragment) else shlex.quote(word)


def line(words: Iterable[Word]) -> str:
    """Words as one line of a script."""
    return " ".join(quote(word) for word in words)


def template(text: str) -> Word:
    """A user's value in which {job_id}, {run_dir} and {node_tmp} stand for what only the job knows; `$` stays `$`."""
    parts = _PLACEHOLDER.split(text)
    if len(parts) == 1:
        return text
    pieces = [shlex.quote(part) if index % 2 == 0 else PLACEHOLDERS[part] for index, part in enumerate(parts)]
    return Fragment("".join(piece for piece in pieces if piece != "''"))
