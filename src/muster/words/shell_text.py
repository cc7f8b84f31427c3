"""A text of the shell, as far as it can be seen without running it: its simple commands. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from muster.words.chain import read_chain

_KEYWORDS = frozenset({"then", "do", "else", "if", "elif", "while", "until", "!", "{", "(", "time"})


def commands_in_shell(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the commands of `bash -c TEXT`."""
    link = read_chain(words)[0] if words else None
    if link is not None and link.kind == "shell":
        text = next((option.value for option in link.options if option.name.endswith("c")), None)
        yield from commands_of(text or "")


def commands_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the simple commands of a shell text, as far as they can be seen without running it."""
    until = ""
    for line in text.replace("\\\n", " ").splitlines():
        if until:
            until = "" if line.strip() == until else until
            continue
        word = line.partition("<<")[2]
        until = "" if word.startswith("<") else next(iter(word.lstrip("-").split()), "").strip("'\"")
        yield from _commands_of_line(line)


def _commands_of_line(line: str) -> Iterator[tuple[str, ...]]:
    reader = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    reader.whitespace_split = True
    try:
        tokens = list(reader)
    except ValueError:  # a quote that ends on another line: its first words are seen
        tokens = line.split("'", maxsplit=1)[0].split('"', maxsplit=1)[0].split()
    command: list[str] = []
    for token in [*tokens, ";"]:
        if set(token) <= set(";&|()"):
            if command:
                yield tuple(command)
            command = []
        elif command or not (token in _KEYWORDS or _assigns(token)):
            command.append(token)


def _assigns(token: str) -> bool:
    name, equals, _ = token.partition("=")
    return bool(equals) and name.isidentifier()
