"""The roles of a job among the words of a command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muster.errors import RequestError

ROLE_OPTIONS = (*("file", "role", "preset", "after", "beside", "port", "ready", "ready_within", "main", "on_failure"),)
"""The options of a job with several programs. Settings files cannot hold them: they are for one job each."""

ROLE_FLAG = "--role"
_EXAMPLE = f"{ROLE_FLAG} NAME: {ROLE_FLAG} serve -N 1 -- vllm serve MODEL"
_TAKEN = ("role", "door")
_NAME = r"[a-z][a-z0-9_]{0,30}"


def split_roles(words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the roles of words that begin at --role, each with its words: those before the next role."""
    roles: list[tuple[str, list[str]]] = []
    words_left = list(words)
    while words_left:
        word = words_left.pop(0)
        flag, equals, name = word.partition("=")
        if flag != ROLE_FLAG:
            roles[-1][1].append(word)
            continue
        if not equals:
            if not words_left:
                raise RequestError(f"{ROLE_FLAG} needs a value", hint=_EXAMPLE)
            name = words_left.pop(0)
        roles.append((_checked(name, [before for before, _ in roles]), []))
    return [(name, tuple(role_words)) for name, role_words in roles]


def _checked(name: str, before: Sequence[str]) -> str:
    if not name.strip():
        raise RequestError(f"{ROLE_FLAG} needs a value, but it is empty", hint=_EXAMPLE)
    if name.startswith("-"):
        raise RequestError(f"{ROLE_FLAG} needs a value, but {name} follows", hint=_EXAMPLE)
    if not re.fullmatch(_NAME, name):
        message = f"{name!r} is not a name of a role"
        raise RequestError(message, hint="at most 31 small letters, digits and _, and a letter first: serve, data_2")
    if name in _TAKEN:
        message = f"a role cannot be called {name}: MUSTER_{name.upper()}_PORT and the like are names of Muster's own"
        raise RequestError(message, hint=f"{ROLE_FLAG} {name}1")
    if name in before:
        raise RequestError(f"two roles are called {name}", hint=f"give the second another name: {name}2")
    return name
