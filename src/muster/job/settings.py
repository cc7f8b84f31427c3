"""Settings typed once: /etc < user < project < MUSTER_*. A key is an option's long name, with - or _.

Reading the files is the caller's work (`look/probe.py`); here text becomes values that know their origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.errors import ProfileError, RequestError, nearest_hint
from muster.job.option import Option, OriginKind, ValueOrigin, convert
from muster.job.request import options_of
from muster.job.roles import ROLE_OPTIONS
from muster.ownership import system_directory
from muster.rank import contract

_NOT_IN_FILES = frozenset({"here", *ROLE_OPTIONS})


def system_file(environment: Mapping[str, str]) -> str:
    """Return the path of the administrator's settings, which hold for everybody on the machine."""
    return f"{system_directory(environment)}/config.toml"


def merge_settings(
    files: Sequence[tuple[str, str]], environment: Mapping[str, str]
) -> dict[str, tuple[Any, ValueOrigin]]:
    """Return value and origin by field, from (path, text) of each file, weakest first, then MUSTER_* variables."""
    merged: dict[str, tuple[Any, ValueOrigin]] = {}
    for path, text in files:
        kind = OriginKind.SYSTEM_SETTINGS if path == system_file(environment) else OriginKind.SETTINGS
        merged.update(_from_file(path, text, kind))
    if contract.JOB in environment:
        return merged  # inside a rank MUSTER_LAUNCHER and its like say how it was started, and are nobody's wish
    for name, option in options_of().items():
        variable = f"MUSTER_{name.upper()}"
        if environment.get(variable) and name not in _NOT_IN_FILES:
            texts = environment[variable].split() if option.repeated else [environment[variable]]
            merged[name] = (_value(option, texts, variable), ValueOrigin(OriginKind.VARIABLE, variable))
    return merged


def table_of(text: str, path: str) -> dict[str, Any]:
    """Return what the text of a TOML file holds."""
    from muster.older import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(str(error), path, hint="the file is TOML: key = value, text in quotes") from None
    except (ValueError, RecursionError):  # thousands of digits or of brackets
        raise ProfileError("a number or a list in it is too long to be read", path, hint="write it shorter") from None


def _from_file(path: str, text: str, kind: OriginKind) -> dict[str, tuple[Any, ValueOrigin]]:
    table = table_of(text, path)
    allowed_options = {name: option for name, option in options_of().items() if name not in _NOT_IN_FILES}
    settings: dict[str, tuple[Any, ValueOrigin]] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        line = _line_of(text, key)
        if name not in allowed_options:
            raise ProfileError(
                "no such setting", path, line=line, key=key, hint=nearest_hint(name, sorted(allowed_options))
            )
        texts = [_spelled(item) for item in value] if isinstance(value, list) else [_spelled(value)]
        if isinstance(value, dict) or (isinstance(value, list) and not allowed_options[name].repeated):
            raise ProfileError("one value is expected here", path, line=line, key=key, hint=allowed_options[name].help)
        try:
            settings[name] = (
                value
                if allowed_options[name].is_switch and isinstance(value, bool)
                else _value(allowed_options[name], texts, key),
                ValueOrigin(kind, f"{path}:{line}"),
            )
        except RequestError as error:
            raise ProfileError(error.message, path, line=line, hint=error.hint) from None
    return settings


def _spelled(value: object) -> str:
    """Return a value as the file has it: TOML writes true and false."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(option: Option, texts: Sequence[str], origin: str) -> Any:
    if option.is_switch:
        if texts[0].lower() not in {"1", "true", "yes", "0", "false", "no"}:
            raise RequestError(f"{origin}: {texts[0]!r} is neither true nor false", hint="write true or false")
        return texts[0].lower() in {"1", "true", "yes"}
    values = tuple(convert(option, text, origin) for text in texts)
    return values if option.repeated else values[0]


def _line_of(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.split("=")[0].strip().strip("\"'") == key:
            return number
    return 1
