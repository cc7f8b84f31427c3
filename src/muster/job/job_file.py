"""The file that describes a job, and the words of a command line: they become each other. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.errors import ProfileError, nearest_hint
from muster.job.options import read_words
from muster.job.request import options_of
from muster.job.roles import ROLE_FLAG
from muster.job.settings import table_of


def words_of_file(text: str, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a job that a TOML file describes: its options, then its roles or its command."""
    table = table_of(text, path)
    options = {name: option for name, option in options_of().items() if name not in {"file", "role"}}
    roles = table.pop("role", {})
    if not isinstance(roles, dict) or not all(isinstance(role, dict) for role in roles.values()):
        raise ProfileError("a role is a table", path, key="role", hint='[role.serve], and below it: command = "…"')
    command = _command(table.pop("command", None), path, "command")
    if command and roles:
        raise ProfileError("the job has roles, so each command belongs to one", path, key="command", hint="[role.NAME]")
    if not command and not roles:
        raise ProfileError("there is neither a command nor a role in it", path, hint='command = ["python", "train.py"]')
    common = tuple(_option_words(table, options, path, ""))
    if command:
        return common, ("--", *command)
    rest: list[str] = []
    for name, role in roles.items():
        own_command = _command(role.pop("command", None), path, f"role.{name}.command")
        rest += [ROLE_FLAG, name, *_option_words(role, options, path, f"role.{name}."), "--", *own_command]
    return common, tuple(rest)


def file_of_words(words: Sequence[str]) -> str:
    """Return the TOML file that describes the job of a command line."""
    options = options_of()
    job = read_words(words, options)
    lines = list(_option_lines(job.values, job.origins))
    lines += [f"command = {_text_of(job.rest)}"] if job.rest else []
    for role in job.values.get("roles", ()):
        lines += ["", f"[role.{role.name}]", *_option_lines(role.values, role.origins)]
        lines += [f"command = {_text_of(role.command)}"] if role.command else []
    return "\n".join(lines) + "\n"


def _option_lines(values: Mapping[str, Any], origins: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options as lines of a file, with the values as they were typed."""
    for name, value in values.items():
        if name == "roles":
            continue
        if value is True:
            yield f"{name} = true"
        elif isinstance(value, tuple):
            yield f"{name} = {_text_of(value)}"
        elif isinstance(value, int):
            yield f"{name} = {value}"
        else:
            yield f"{name} = {_quoted(origins[name].text)}"


def _text_of(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


def _quoted(text: str) -> str:
    """Return a text as TOML writes it: as JSON does, which knows no other escapes."""
    return json.dumps(text, ensure_ascii=False)


def _command(value: Any, path: str, key: str) -> list[str]:
    """Return the words of a command: a list as it is, a text as a shell would split it."""
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return list(value)
    if not isinstance(value, str):
        raise ProfileError("a command is a text, or a list of texts", path, key=key, hint='["python", "train.py"]')
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ProfileError(f"the command cannot be split into words: {error}", path, key=key) from None


def _option_words(table: Mapping[str, Any], options: Mapping[str, Any], path: str, place: str) -> Iterator[str]:
    for key, value in table.items():
        name = _field(key, options)
        if name is None:
            names = sorted(option.long_names[0] for option in options.values())
            raise ProfileError("no such option", path, key=place + key, hint=nearest_hint(key.replace("_", "-"), names))
        flag = f"--{options[name].long_names[0]}"
        if options[name].is_switch:
            if not isinstance(value, bool):
                raise ProfileError("it is true or false", path, key=place + key, hint=options[name].help)
            yield from (flag,) if value else ()
            continue
        values = value if isinstance(value, list) else [value]
        if name == "after":
            values = [",".join(map(str, values))]
        if isinstance(value, dict) or (len(values) != 1 and not options[name].repeated):
            raise ProfileError("one value is expected here", path, key=place + key, hint=options[name].help)
        yield from (f"{flag}={text}" for text in values)


def _field(key: str, options: Mapping[str, Any]) -> str | None:
    """Return the field of an option by any of its long spellings, with - or _."""
    spelled = key.replace("_", "-")
    return next((name for name, option in options.items() if spelled in option.long_names), None)
