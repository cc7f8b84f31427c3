"""Walltime, memory and counts: parse what a person or Slurm wrote, format what Slurm reads. Pure."""

from __future__ import annotations

import re

from muster.errors import RequestError

__all__ = ["format_memory", "format_walltime", "parse_memory_mib", "parse_walltime_s"]

_WALLTIME_FORMS = "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds]"
_UNITS_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def parse_walltime_s(text: str) -> int | None:
    """Seconds of a Slurm time; None where Slurm reads it as unlimited."""
    if text.strip().upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    if not all(re.fullmatch(r"[0-9]+", part) for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        raise RequestError(f"{text!r} is not a time limit", hint=f"Slurm's forms: {_WALLTIME_FORMS}")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        total = ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(numbers) == 3:
        total = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    else:
        minutes, seconds = (*numbers, 0)[:2]
        total = minutes * 60 + seconds
    return total


def format_walltime(seconds: int) -> str:
    """The form every Slurm reads the same way: [days-]hours:minutes:seconds."""
    days, rest = divmod(seconds, 24 * 3600)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def parse_memory_mib(text: str) -> int:
    """Mebibytes of a Slurm memory size; a bare number is mebibytes, parts are rounded up."""
    found = re.fullmatch(r"([0-9]+)(?:([KMGT])(?:i?B)?)?", text.strip(), re.IGNORECASE)
    if not found:
        raise RequestError(f"{text!r} is not a memory size", hint="a number and K, M, G or T, for example 64G")
    number, unit = int(found[1]), (found[2] or "M").upper()
    return -int(-number * _UNITS_MIB[unit] // 1)


def format_memory(mib: int) -> str:
    """The shortest exact form with a unit that Slurm reads: 16G, 1536M."""
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"
