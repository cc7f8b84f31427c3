"""The table of a sweep, read whole: a CSV file whose first line names the columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
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


def table_of_rows(rows: Sequence[object]) -> SweepTable:
    """Return the table of rows that are values of a program: each a mapping with the same keys, or refuse it."""
    name = f"{len(rows)} row{'s' * (len(rows) != 1)} of a program"
    if not rows:
        raise RequestError("sweep: there is no row", hint='sweep=[{"lr": 0.1}, {"lr": 0.2}]')
    columns: list[str] = []
    for number, row in enumerate(rows):
        place = f"sweep[{number}]"
        if not isinstance(row, Mapping):
            raise RequestError(f"{place}: {row!r} is not a mapping", hint='sweep=[{"lr": 0.1}, {"lr": 0.2}]')
        columns = columns or [str(column) for column in row]
        if [str(column) for column in row] != columns:
            raise RequestError(
                f"{place} has the columns {', '.join(map(str, row))}, but sweep[0] has {', '.join(columns)}",
                hint="give each row the same keys, in the same order",
            )
        for column, value in row.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float, PathLike)) or "\0" in str(value):
                raise RequestError(f"{place}: {column}={value!r} is neither a text nor a number", hint="give its text")
    _check_columns(columns, "sweep[0]")
    return SweepTable(name, tuple(columns), tuple(tuple(map(str, row.values())) for row in rows))  # type: ignore[attr-defined]  # each is a mapping


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
        separator = next((sign for sign in ";\t|" if sign in name), None)
        if len(columns) == 1 and separator is not None:
            names = ", ".join(name.split(separator))
            raise RequestError(
                f"{place}: the columns are separated by {separator!r}", hint=f"separate them by commas: {names}"
            )
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{place}: {name!r} cannot be a column",
                hint=f"a name has a to z, A to Z, digits and _, as in {{lr}}; {_FORM}",
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
