"""Words that stand before a command and run it: env, uv run, numactl, time, bash -c. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec


class _Wrapper(msgspec.Struct, frozen=True):
    """How a wrapper's own words end and the command begins."""

    verb: tuple[str, ...] = ()
    """The second word with which it runs something; without it, it does not."""

    valued: frozenset[str] = frozenset()
    """Its options whose value is the next word."""

    positional: int = 0
    """Words of its own before the command."""


def _of(verb: str = "", valued: str = "", positional: int = 0) -> _Wrapper:
    return _Wrapper(tuple(verb.split()), frozenset(valued.split()), positional)


_UV = """--with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --python -p
--env-file --project --directory --package --index --default-index --index-url -i --extra-index-url --find-links -f
--config-file --cache-dir --refresh-package --resolution --prerelease --link-mode --color --no-binary-package -P"""
_WRAPPERS = {
    "env": _of(valued="-u --unset -C --chdir"),
    "uv": _of("run", _UV),
    "poetry": _of("run", "-C --directory -P --project"),
    "pdm": _of("run", "-p --project"),
    "hatch": _of("run"),
    "pipenv": _of("run"),
    "rye": _of("run"),
    "pixi": _of("run exec", "-e --environment --manifest-path"),
    "conda": _of("run", "-n --name -p --prefix --cwd"),
    "mamba": _of("run", "-n --name -p --prefix --cwd"),
    "micromamba": _of("run", "-n --name -p --prefix --cwd -r --root-prefix"),
    "numactl": _of(valued="-i -N -m -C -p -P -w --interleave --cpunodebind --membind --physcpubind --preferred"),
    "time": _of(valued="-f -o --format --output"),
    "nice": _of(valued="-n --adjustment"),
    "ionice": _of(valued="-c -n --class --classdata"),
    "timeout": _of(valued="-s -k --signal --kill-after", positional=1),
    "taskset": _of(positional=1),
    "chrt": _of(positional=1),
    "stdbuf": _of(valued="-i -o -e --input --output --error"),
    **dict.fromkeys(("nohup", "setsid", "exec", "command", "unbuffer", "catchsegv"), _of()),
}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_KEYWORDS = frozenset({"then", "do", "else", "if", "elif", "while", "until", "!", "{", "(", "time"})


def unwrapped(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words before the command and the command; the first is empty where nothing stands before it."""
    wrapper_words: tuple[str, ...] = ()
    rest = tuple(words)
    while rest and (start := _start_of_command(rest)):
        wrapper_words, rest = (*wrapper_words, *rest[:start]), rest[start:]
    return wrapper_words, rest


def _start_of_command(words: Sequence[str]) -> int:
    """Return where the command of a wrapper begins; 0: this is not a wrapper."""
    name = PurePosixPath(words[0]).name
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return 0
    index, positionals_left = 1, wrapper.positional
    if wrapper.verb:
        index = next((place for place, word in enumerate(words) if word in wrapper.verb), 0)
        if not index:
            return 0
        index += 1
    while index < len(words):
        word = words[index]
        if word == "--":
            return index + 1
        if word in {"-m", "--module"} and name == "uv":
            return 0
        if word in wrapper.valued:
            index += 2
        elif word.startswith("-") or (name == "env" and "=" in word):
            index += 1
        elif positionals_left:
            index, positionals_left = index + 1, positionals_left - 1
        else:
            return index
    return 0


def commands_in_shell(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the commands of `bash -c TEXT`."""
    if not words or PurePosixPath(words[0]).name not in _SHELLS:
        return
    for index, word in enumerate(words[1:], start=1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            yield from commands_of(words[index + 1] if index + 1 < len(words) else "")
            return
        if not word.startswith("-"):
            return


def commands_of(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the simple commands of a shell text, as far as they can be seen without running it."""
    until = ""
    for line in text.replace("\\\n", " ").splitlines():
        if until:
            until = "" if line.strip() == until else until
            continue
        _, mark, word = line.partition("<<")
        until = word.removeprefix("<").lstrip("-").split()[0].strip("'\"") if mark and word.strip("<- ") else ""
        until = "" if word.startswith("<") else until
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
