"""Walltime and memory: parse what a person or Slurm wrote, format what Slurm reads; a text as TOML has it. Pure."""

from __future__ import annotations

import re

import msgspec

from muster.errors import RequestError

_WALLTIME_FORMS = "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds]"
# How people write a time: 90m, 12h, 2d, 1d12h, 30min.
_BY_UNIT = r"(?i)(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m(?:in)?)?(?:([0-9]{1,9})s)?"
_UNITS_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}
# No count, time or size of any cluster has more; int() refuses thousands of digits, and floats end before that.
_MOST_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Return the number that these ASCII digits spell; None for anything else, and for more than 18 digits.

    str.isdigit takes characters that int() refuses ("²"), so whatever was written elsewhere is read with this.
    """
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit() else None


def shown(text: str) -> str:
    """Return the text in quotes as a message quotes it: the first 40 characters of a longer one."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"


def toml_text(text: str) -> str:
    """Return the text as a string of TOML: JSON's escapes do, but for the one character that JSON leaves as it is."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def parse_walltime_s(text: str) -> int | None:
    """Return the seconds of a Slurm time; None where Slurm reads it as unlimited."""
    if text.strip().upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    numbers = [number for part in parts if (number := whole_number(part)) is not None]
    whole_days = whole_number(days) if dash else 0
    if len(numbers) < len(parts) or len(parts) > 3 or whole_days is None:
        raise RequestError(
            f"{shown(text)} is not a time limit", hint=f"30 (minutes), 90m, 12h, 2d; or {_WALLTIME_FORMS}"
        )
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        total = ((whole_days * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(numbers) == 3:
        total = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    else:
        minutes, seconds = (*numbers, 0)[:2]
        total = minutes * 60 + seconds
    return total


def format_walltime(seconds: int) -> str:
    """Return the form every Slurm reads the same way: [days-]hours:minutes:seconds."""
    days, rest = divmod(seconds, 24 * 3600)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def known_walltime_s(text: str | None) -> int | None:
    """Return the seconds of a Slurm time; None where it is unlimited, not said, or no time."""
    try:
        return parse_walltime_s(text) if text and text.strip() else None
    except RequestError:
        return None


def parse_memory_mib(text: str) -> int:
    """Return the mebibytes of a Slurm memory size; a bare number is mebibytes, parts are rounded up."""
    match = re.fullmatch(r"([0-9]{1,18})(?:([KMGT])(?:i?B)?)?", text.strip(), re.IGNORECASE | re.ASCII)
    if not match:
        raise RequestError(
            f"{shown(text)} is not a memory size", hint="write a number and K, M, G or T, for example 64G"
        )
    return -(-int(match[1]) * _UNITS_KIB[(match[2] or "M").upper()] // 1024)


def format_memory(mib: int) -> str:
    """Return the shortest exact form with a unit that Slurm reads: 16G, 1536M."""
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


class Walltime(msgspec.Struct, frozen=True):
    """A time limit; None: unlimited."""

    seconds: int | None

    @classmethod
    def parse(cls, text: str) -> Walltime:
        """Return the time that a person wrote: in one of Slurm's forms, or as 90m, 12h, 2d, 1d12h."""
        units = re.fullmatch(_BY_UNIT, text.strip())
        if units is None or not any(units.groups()):
            return cls(parse_walltime_s(text))
        days, hours, minutes, seconds = (int(number or 0) for number in units.groups())
        return cls(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

    def __str__(self) -> str:
        return "UNLIMITED" if self.seconds is None else format_walltime(self.seconds)


class Memory(msgspec.Struct, frozen=True):
    """A size of memory."""

    mib: int

    @classmethod
    def parse(cls, text: str) -> Memory:
        """Return the size that a person wrote."""
        return cls(parse_memory_mib(text))

    def __str__(self) -> str:
        return format_memory(self.mib) if self.mib else "0"
