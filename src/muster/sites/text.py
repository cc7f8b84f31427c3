"""A profile's file → its tables, before anything is known of their meaning; errors name file and line."""

from __future__ import annotations

import datetime as dt
import re
import zlib
from collections.abc import Mapping
from os import path as paths
from typing import TYPE_CHECKING, Any

import msgspec

from muster.errors import ProfileError

if TYPE_CHECKING:
    from muster.ownership import AnyPath

SCHEMA_VERSION = 1

# The largest bundled profile has 20 kB; a file beyond this is something else.
_MAX_BYTES = 1_000_000


def read_text(path: AnyPath) -> str:
    """Return the text of a profile file."""
    place = str(path)
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ProfileError("there is no such file", place, hint="muster site list shows the profiles") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProfileError(f"cannot be read: {reason}", place, hint="correct the file or its permissions") from None
    if len(data) > _MAX_BYTES:
        raise ProfileError(
            f"is larger than {_MAX_BYTES // 1000} kB, too large for a site profile", place, hint="give a TOML profile"
        )
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProfileError("is not UTF-8 text", place, line=line, hint="save it as UTF-8") from None


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    from muster.older import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+), column \d+\)", str(error))
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        line = int(match[1]) if match else text.count("\n") + 1
        message = message[:1].lower() + message[1:]
        raise ProfileError(f"not TOML: {message}", file, line=line, hint="key = value, text in quotes") from None
    except ValueError:  # a number that Python does not read: thousands of digits
        raise ProfileError("not TOML: a number has too many digits", file, hint="write it shorter") from None
    except RecursionError:
        raise ProfileError("not TOML: brackets are nested too deeply", file, hint="key = value") from None


def file_of_tables(path: AnyPath) -> str:
    """Return the file in which the tables of a profile that Muster brings lie read: TOML costs a launch 5 to 15 ms."""
    folder, name = paths.split(path)
    return f"{folder}/read/{name.removesuffix('.toml')}.json"


def spell_tables(text: str) -> bytes:
    """Return what that file holds: the tables, and the sum of the text that they were read from."""
    return msgspec.json.encode({"crc32": zlib.crc32(text.encode()), "tables": parse_toml(text, "")})


def tables_read_before(path: AnyPath, text: str) -> dict[str, Any] | None:
    """Return the tables of this very text; None where they do not lie there, or are of another text."""
    try:
        with open(file_of_tables(path), "rb") as stream:
            read = msgspec.json.decode(stream.read())
    except (OSError, msgspec.DecodeError):  # not there, or not whole
        return None
    return _with_dates(read["tables"]) if read["crc32"] == zlib.crc32(text.encode()) else None


def _with_dates(value: Any) -> Any:
    """Return a value of JSON with the dates of a profile, which JSON has as text."""
    if isinstance(value, list):
        return [_with_dates(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dt.date.fromisoformat(each) if key in {"checked", "dated"} else _with_dates(each)
        for key, each in value.items()
    }


def check_version(table: Mapping[str, Any], text: str, file: str) -> None:
    """Refuse a text that is from a newer Muster: what its keys mean there is not known here."""
    version = table.get("muster_site", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        from muster.sites.places import toml_line, toml_lines

        raise ProfileError(
            f"has format {version}, but this Muster reads formats up to {SCHEMA_VERSION}",
            file,
            line=toml_line(toml_lines(text), ("muster_site",)),
            key="muster_site",
            hint="update Muster",
        )
