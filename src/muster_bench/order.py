"""What is to be measured: words of the command line → the one JSON object that every rank reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from muster.errors import RequestError, UnknownName
from muster_bench.factors import COLLECTIVES

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64")
PARTS = ("nodes", "intra", "inter", "pairs", "devices")

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_BY_LETTERS = {name.lower(): size for name, size in _UNITS.items()}
_SMALLEST, _LARGEST = 8, 1 << 40


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The series, as the ranks read it."""

    parts: tuple[str, ...] = PARTS
    collectives: tuple[str, ...] = COLLECTIVES
    dtypes: tuple[str, ...] = ("float32",)
    place: str = "both"
    sizes: tuple[int, ...]
    sizes_asked: bool
    """Typed by the user: what does not fit is refused. Else the series ends where memory does."""

    trials: int = 7
    iterations: int = 20
    pair_rounds: int | None = 6
    pair_bytes: int = 1 << 24
    seed: int
    storage: str

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()


def parse_bytes(text: str) -> int:
    """Return the bytes of a size with its unit: 8B, 64KiB, 4GB."""
    match = re.fullmatch(r"([0-9]{1,15})\s?([A-Za-z]*)", text.strip(), re.ASCII)
    if not match:
        raise RequestError(
            f"{text!r} is not a size", hint="write a whole number and a unit: 8B, 64KiB, 16MiB, 4GiB, 4GB"
        )
    number, unit = match.groups()
    if not unit:
        raise RequestError(f"the size {text!r} has no unit", hint=f"{number}B, {number}KiB or {number}MiB")
    if unit.lower() not in _BY_LETTERS:
        raise RequestError(
            f"{unit!r} is not a unit of size", hint="use B, KiB, MiB or GiB; KB, MB and GB are powers of ten"
        )
    size = int(number) * _BY_LETTERS[unit.lower()]
    if not _SMALLEST <= size <= _LARGEST:
        raise RequestError(f"the size {text!r} is out of range", hint="give 8B (one element of any type) to 1024GiB")
    return size


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return every power of two of `8B..16GiB`, from the first to the last; else the sizes of a list with commas."""
    low, dots, high = text.partition("..")
    if not dots:
        return tuple(sorted({parse_bytes(part) for part in text.split(",")}))
    first, last = parse_bytes(low), parse_bytes(high)
    if first > last:
        raise RequestError(f"the sizes {text!r} run backwards", hint=f"{high}..{low}")
    sizes = []
    while first <= last:
        sizes.append(first)
        first *= 2
    return tuple(sizes)


def choose(text: str, kind: str, known_names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a list with commas, each once, in their order."""
    names = tuple(dict.fromkeys(part.strip().replace("-", "_") for part in text.split(",")))
    for name in names:
        if name not in known_names:
            raise UnknownName(kind, name, known_names)
    return names


def format_bytes(size: int) -> str:
    """Return the size with the largest unit that makes it exact: 64 KiB, 4 GB; else a rounded one."""
    for name in ("GiB", "GB", "MiB", "MB", "KiB"):
        if size >= _UNITS[name] and size % _UNITS[name] == 0:
            return f"{size // _UNITS[name]} {name}"
    for name in ("GiB", "MiB", "KiB"):
        if size >= 10 * _UNITS[name]:
            return f"{size / _UNITS[name]:.1f} {name}"
    return f"{size} B"
