"""The table of a sweep, read whole: a CSV file whose first line names the columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from muster.errors import RequestError, UnknownName
from muster.facts import SweepTable
from muster.model.words import PLACEHOLDERS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORM = "the first line names the columns, each further line is one run: lr,seed / 0.1,1 / 0.2,1"


def read_table(typed_path: str, directory: str) -> SweepTable:
    """Return the table of a file, or refuse it with the line that is not right."""
    lines = list(_lines(typed_path, _text_of(Path(directory, typed_path), typed_path)))
    if not lines:
        raise RequestError(f"--sweep {typed_path}: the file is empty", hint=_FORM)
    (number, columns), *rows = lines
    _check_columns(columns, f"{typed_path}:{number}")
    if not rows:
        raise RequestError(f"--sweep {typed_path}: it names columns, but no row follows", hint=_FORM)
    for number, row in rows:
        _check_row(row, columns, f"{typed_path}:{number}")
    return SweepTable(typed_path, tuple(columns), tuple(tuple(row) for _, row in rows))


def _text_of(file: Path, typed_path: str) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = sorted(path.name for path in file.parent.glob("*.csv")) if file.parent.is_dir() else []
        if near:
            raise UnknownName("file", typed_path, near) from None
        raise RequestError(f"--sweep {typed_path}: there is no such file", hint=f"looked for {file}") from None
    except IsADirectoryError:
        raise RequestError(f"--sweep {typed_path} is a directory", hint="name the table itself") from None
    except OSError as error:
        raise RequestError(f"--sweep {typed_path} cannot be read: {error.strerror}", hint=f"ls -l {file}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RequestError(f"{typed_path}:{line}: this is not UTF-8", hint="save the table as CSV UTF-8") from None


def _lines(typed_path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each line that holds something, with its number in the file."""
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise RequestError(f"{typed_path}:{line}: it holds a NUL byte", hint="save the table as CSV UTF-8")
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise RequestError(
            f"{typed_path}:{start}: this is not CSV: {error}",
            hint='a value with a comma, a quote or a line break stands in quotes: "a, ""b"""',
        ) from None


def _check_columns(columns: list[str], place: str) -> None:
    for name in columns:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{place}: {name!r} cannot be a column", hint=f"a name has letters, digits and _, as in {{lr}}; {_FORM}"
            )
        if columns.count(name) > 1:
            raise RequestError(f"{place}: there are two columns {name}", hint="give each column a name of its own")
        if name in PLACEHOLDERS:
            raise RequestError(f"{place}: {{{name}}} is filled in by every job", hint=f"another name, as in my_{name}")


def _check_row(row: list[str], columns: list[str], place: str) -> None:
    if len(row) != len(columns):
        raise RequestError(
            f"{place}: the line has {len(row)} value{'s' * (len(row) != 1)}, but there are {len(columns)} columns: "
            + ", ".join(columns),
            hint='a value that holds a comma stands in quotes: "a,b"; an empty value is two commas',
        )
