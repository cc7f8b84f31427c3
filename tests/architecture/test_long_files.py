"""A file above 450 lines says in its first lines why it is long, or holds two subjects and is cut."""

from __future__ import annotations

import ast
import re

from .paths import ROOT, parsed

_MOST_LINES = 450


def _first_words(text: str) -> str:
    return (ast.get_docstring(parsed(text)) or "").lower()


def test_a_long_file_says_why_it_is_long() -> None:
    silent = []
    for path in sorted(ROOT.glob("src/**/*.py")):
        text = path.read_text()
        if text.count("\n") > _MOST_LINES and not re.search(r"\blong\b", _first_words(text)):
            silent.append(path.relative_to(ROOT).as_posix())

    assert silent == []
