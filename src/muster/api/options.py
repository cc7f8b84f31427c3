"""Options by their names in Python → the words of a command line: one table and one reader for both."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from os import PathLike, fspath
from typing import Any, NamedTuple, Union

from muster.errors import RequestError, UnknownName
from muster.facts import SweepTable
from muster.images.reference import ImageReference
from muster.job.option import Option, OriginKind, ValueOrigin, convert
from muster.job.options import parse
from muster.job.request import options_of
from muster.look.table import table_of_rows
from muster.units import Memory, Walltime

Command = Union[str, Sequence[Union[str, PathLike[str]]]]


class ReadOptions(NamedTuple):
    """What was asked, as the command line's reader gives it."""

    values: dict[str, Any]
    origins: dict[str, ValueOrigin]
    command: tuple[str, ...]
    typed: tuple[str, ...]
    """The same as words of a command line."""

    table: SweepTable | None = None
    """The rows of a sweep that were given as values."""


def read_options(verb: str, command: Command | None, options: Mapping[str, object]) -> ReadOptions:
    """Return what was asked; RequestError names the option that is not known, or whose value cannot be."""
    table_of_sweep: SweepTable | None = None
    rows = options.get("sweep")
    if isinstance(rows, (list, tuple)):
        table_of_sweep = table_of_rows(rows)
        options = {**options, "sweep": table_of_sweep.path}  # what the plan calls it
    roles = options.get("roles")
    words, off = _read_table(verb, {name: value for name, value in options.items() if name != "roles"})
    if "roles" in options and command is None:
        rest: tuple[str, ...] = ()
        all_words = (*words, *_words_of_roles(verb, roles))
    else:
        if "roles" in options:
            raise RequestError("each role has a command of its own, but a command was given too", hint=_ROLES)
        rest = words_of_command(() if command is None else command)
        all_words = (*words, "--", *rest)
    values, origins, _ = parse(all_words)
    for name in off:  # stands over a settings file that says true
        values[name], origins[name] = False, ValueOrigin(OriginKind.ABSENT_OPTION, f"{name}=False")
    return ReadOptions(values, origins, rest, all_words, table_of_sweep)


_NOT_IN_PYTHON = ("no_label", "role", "file")
_MOST_MEANT = 3
"""So many names are proposed for one that is not there."""

_ROLES = 'muster.submit(roles={"serve": {"command": ["vllm", "serve", "MODEL"], "nodes": 1}}, time=60)'


def _read_table(verb: str, options: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return the options as they would be typed, and the switches that are turned off."""
    words: list[str] = []
    off: list[str] = []
    table = {name: option for name, option in options_of().items() if name not in _NOT_IN_PYTHON}
    for name, value in options.items():
        if name in _NOT_IN_PYTHON:
            hint = f"omit {name}" if name == "no_label" else _ROLES
            raise RequestError(f"muster.{verb} does not take {name}", hint=hint)
        if name not in table:
            like_names = [each for each in sorted(table) if name in each]
            meant = like_names if len(like_names) <= _MOST_MEANT else ()
            raise UnknownName("option", name, sorted(table), listed_by="muster docs options", meant=meant)
        if value is False and table[name].is_switch:
            off.append(name)
        elif value is not None:
            words += _words(name, table[name], value)
    return words, off


def _words_of_roles(verb: str, roles: object) -> Iterator[str]:
    """Yield the roles of a job of several programs as they would be typed: a table of tables, as in the job's file."""
    if not isinstance(roles, Mapping) or not all(isinstance(role, Mapping) for role in roles.values()):
        raise RequestError("roles is not a table of tables", hint=_ROLES)
    for name, role in roles.items():
        after = role.get("after")
        listed = {"after": ",".join(map(str, after))} if isinstance(after, (list, tuple)) else {}
        options = {**{key: value for key, value in role.items() if key != "command"}, **listed}
        yield from ("--role", str(name), *_read_table(verb, options)[0])
        if "command" in role:
            yield from ("--", *words_of_command(role["command"]))


def words_of_command(command: Command) -> tuple[str, ...]:
    """Return the words of a command: a list as it is, a text as a shell would split it."""
    try:
        words = shlex.split(command) if isinstance(command, str) else [fspath(word) for word in command]
    except ValueError as error:
        hint = 'a list needs no quotes: ["python", "train.py"]'
        raise RequestError(f"the command cannot be split into words: {error}", hint=hint) from None
    except TypeError as error:
        hint = '["python", "train.py"]; Muster starts programs: for a Python function see muster docs coming-from'
        raise RequestError(f"the command is not a list of texts: {error}", hint=hint) from None
    if not words:
        raise RequestError("no command was given", hint='muster.plan(["python", "train.py"], nodes=2)')
    return tuple(words)


def _words(name: str, option: Option, value: object) -> Iterator[str]:
    """Yield the option as it would be typed, once its value was looked at under the name that it has here."""
    flag = f"--{option.long_names[0]}"
    if option.is_switch:
        if value is not True:
            raise RequestError(f"{name} is a switch, but {value!r} is neither True nor False", hint=option.help)
        yield flag
        return
    for text in _texts(name, option, value):
        convert(option, text, name)
        yield f"{flag}={text}"


def _texts(name: str, option: Option, value: object) -> list[str]:
    if isinstance(value, Mapping) and option.repeated:
        return [f"{key}={_text(name, option, item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple)) and option.repeated:
        return [_text(name, option, item) for item in value]
    return [_text(name, option, value)]


def _text(name: str, option: Option, value: object) -> str:
    """Return one value as it would be typed."""
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        return f"{seconds // 60}:{seconds % 60:02}"
    if isinstance(value, PathLike):
        return str(fspath(value))
    if isinstance(value, bool) or not isinstance(value, (str, int, float, ImageReference, Memory, Walltime)):
        raise RequestError(f"{name}: {value!r} is not a value that it takes", hint=f"{name}: {option.help}")
    return str(value)
