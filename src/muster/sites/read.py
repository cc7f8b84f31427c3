"""Tables → a typed profile, or the one key that does not fit and what was expected there. Pure."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from muster.errors import nearest_hint
from muster.older import type_hints
from muster.sites.places import Path
from muster.sites.schema import Profile

# `Optional[int]` has another origin than `int | None`, which Python 3.9 lacks.
_UNIONS = {Union, getattr(types, "UnionType", Union)}

_NAMES = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "nothing",
}


class Broken(NamedTuple):
    """The one place where a value does not fit the schema."""

    path: Path
    message: str
    hint: str | None = None


def to_profile(table: Mapping[str, Any]) -> Profile | Broken:
    """Return the typed value of these tables, or the one place where they do not fit the schema."""
    try:
        return msgspec.convert(table, Profile)
    except msgspec.ValidationError as error:
        return _narrow(table, Profile, ()) or Broken((), str(error))


def struct_keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the keys of a part of the schema."""
    return kind.__struct_encode_fields__


def _narrow(value: Any, kind: Any, path: Path) -> Broken | None:
    """Return the deepest key that does not fit; None if `value` fits `kind`."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        for child, child_kind, part in _children(value, kind):
            broken = _narrow(child, child_kind, (*path, part))
            if broken is not None:
                return broken
        return _misfit(value, kind, path, str(error))
    return None


def _children(value: Any, kind: Any) -> Iterator[tuple[Any, Any, str | int]]:
    for option in _options(kind):
        origin = get_origin(option)
        if isinstance(value, dict) and isinstance(option, type) and issubclass(option, msgspec.Struct):
            hints = type_hints(option)
            yield from ((value[key], hints[key], key) for key in struct_keys(option) if key in value)
        elif isinstance(value, dict) and origin is dict:
            yield from ((child, get_args(option)[1], key) for key, child in value.items())
        elif isinstance(value, list) and origin is tuple:
            yield from ((child, get_args(option)[0], index) for index, child in enumerate(value))


def _options(kind: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, None left out; an annotated type stays as it is."""
    if get_origin(kind) in _UNIONS:
        return tuple(member for member in get_args(kind) if member is not type(None))
    return (kind,)


def _misfit(value: Any, kind: Any, path: Path, sentence: str) -> Broken:
    for option in _options(kind):
        if isinstance(value, dict) and isinstance(option, type) and issubclass(option, msgspec.Struct):
            known_keys = struct_keys(option)
            for key in value:
                if key not in known_keys:
                    return Broken((*path, key), "there is no such key", nearest_hint(key, known_keys))
            missing = re.search(r"missing required field `(\w+)`", sentence)
            if missing:
                return Broken(
                    path,
                    f"the key {missing[1]!r} is missing here",
                    f"it is {_words(type_hints(option)[missing[1]])}",
                )
    expected = " or ".join(_words(option) for option in _options(kind))
    if isinstance(value, str):
        for option in _options(kind):
            if get_origin(option) is Literal:
                return Broken(
                    path,
                    f"{value!r} is not one of {expected}",
                    nearest_hint(value, [str(member) for member in get_args(option)]),
                )
    return Broken(path, f"expected {expected}, found {_found(value)}")


def _words(kind: Any) -> str:
    """Return what a type wants, in words."""
    origin = get_origin(kind)
    for metadata in getattr(kind, "__metadata__", ()):
        if isinstance(metadata, msgspec.Meta) and metadata.description:
            return metadata.description
    if hasattr(kind, "__metadata__"):
        return _words(kind.__origin__)
    if origin is Literal:
        return ", ".join(repr(member) for member in get_args(kind))
    if origin is tuple:
        return f"a list, each of it {_words(get_args(kind)[0])}"
    if origin is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return "a table of keys and values"
    if origin in _UNIONS:
        return " or ".join(_words(option) for option in _options(kind))
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def _found(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, (str, int, float)) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
