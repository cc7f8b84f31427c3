"""Under which name conda-forge has what people install with pip. The data is conda_names.toml, dated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from muster.rank.vendors import VENDORS
from muster_build.pins import Pin


class CondaNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of conda-forge, where it was read, and of which day it is."""

    source: str
    checked: dt.date
    same: tuple[str, ...]
    other: dict[str, str]

    def of(self, name: str) -> str | None:
        """Return conda-forge's name of a package of pip's; None: not known to be there."""
        return self.other.get(name) or (name if name in self.same else None)


@cache
def conda_names() -> CondaNames:
    """Return the names, read once."""
    return msgspec.toml.decode(Path(__file__).with_name("conda_names.toml").read_bytes(), type=CondaNames)


def conda_has(pins: Iterable[Pin]) -> Iterator[tuple[Pin, str]]:
    """Yield packages of a conda file's `pip:` list that conda-forge has: pip's would stand beside conda's own builds.

    A build for a kind of GPU that conda-forge does not make is pip's for a reason.
    """
    known_names = conda_names()
    for pin in pins:
        name = known_names.of(pin.name) if pin.from_pip and not _only_of_pip(pin.words) else None
        if name is not None:
            yield pin, name


def _only_of_pip(words: str) -> bool:
    return any(vendor.kind in words for vendor in VENDORS if not vendor.on_package_index)
