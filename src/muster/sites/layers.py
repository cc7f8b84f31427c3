"""Layers of a profile, one over the other; every value remembers which of them it came from. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from muster.sites.places import Path

# How entries of a list are recognised as the same one: a later layer then replaces it. Other lists are replaced whole.
_IDENTITY = {
    "environment": ("name", "when"),
    "commands": ("argv", "where"),
    "quirks": ("id",),
    "forbidden": ("flag", "value"),
    "binds": ("path", "when"),
    "unverified": ("key",),
}

# What a profile says of itself only, and not of those that extend it.
_OWN = frozenset(
    {
        *("name", "title", "system", "summary", "extends", "without", "complete", "trust", "detect"),
        *("unpublished", "muster_site"),
    }
)


class Layer(msgspec.Struct, frozen=True):
    """One text that says something of a site."""

    kind: str
    """bundled, site-wide, user, project or command line."""

    file: str
    text: str
    table: Mapping[str, Any]
    inherited: bool = False
    """Reached by `extends`: what it says of itself does not hold for the other."""

    def line(self, path: Path) -> int | None:
        """Return the line of this layer's file that sets `path`; most launches show none."""
        from muster.sites.places import toml_line, toml_lines

        return toml_line(toml_lines(self.text), path)


class Merged(msgspec.Struct, frozen=True, dict=True):
    """The tables of all layers, and for every leaf the layer it came from and its path there."""

    table: dict[str, Any]
    origins: dict[Path, tuple[int, Path]]

    def origin(self, path: Path) -> tuple[int, Path] | None:
        """Return the strongest layer that says something at or below this path, else around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._strongest:
                return self._strongest[path[:length]]
        return None

    @cached_property
    def _strongest(self) -> dict[Path, tuple[int, Path]]:
        """Return the strongest origin at or below each path; of equally strong ones the first."""
        strongest: dict[Path, tuple[int, Path]] = {}
        for leaf, origin in self.origins.items():
            for length in range(1, len(leaf) + 1):
                if origin[0] > strongest.get(leaf[:length], (-1,))[0]:
                    strongest[leaf[:length]] = origin
        return strongest


def merge(layers: Sequence[Layer]) -> Merged:
    """Merge tables key by key, entries of known lists by their identity; anything else is replaced."""
    merged = Merged({}, {})
    for index, layer in enumerate(layers):
        names_without = layer.table.get("without", ())
        for key in names_without if isinstance(names_without, list) else ():  # anything else is refused by the schema
            _forget(merged, tuple(str(key).split(".")))
        own_table = {key: value for key, value in layer.table.items() if not (layer.inherited and key in _OWN)}
        _Over(index, merged.origins).table(merged.table, own_table, (), ())
    return merged


def _forget(merged: Merged, path: Path) -> None:
    """Take what weaker layers say at this key away."""
    inner: Any = merged.table
    for part in path[:-1]:
        inner = inner.get(part, {}) if isinstance(inner, dict) else {}
    if isinstance(inner, dict):
        inner.pop(str(path[-1]), None)
    _Over(0, merged.origins).forget(path)


class _Over(msgspec.Struct, frozen=True):
    """One layer, laid over what is merged so far. `path`: where in the whole; `there`: where in this layer's file."""

    index: int
    origins: dict[Path, tuple[int, Path]]

    def table(self, into: dict[str, Any], layer_table: Mapping[str, Any], path: Path, source_path: Path) -> None:
        for key, value in layer_table.items():
            inner_path, source = (*path, key), (*source_path, key)
            if isinstance(value, dict):
                if not isinstance(into.get(key), dict):
                    if key in into:
                        self.forget(inner_path)
                    into[key] = {}
                    self.origins[inner_path] = (self.index, source)
                self.table(into[key], value, inner_path, source)
            elif key in _IDENTITY and isinstance(value, list):
                weaker = into.get(key)
                into[key] = list(weaker) if isinstance(weaker, list) else []
                self.entries(into[key], value, inner_path, source)
            else:
                self.value(into, value, inner_path, source)

    def value(self, into: dict[str, Any], value: Any, path: Path, source_path: Path) -> None:
        if path[-1] in into:
            self.forget(path)
        into[str(path[-1])] = value
        self.origins[path] = (self.index, source_path)
        if isinstance(value, list):
            self.origins.update({(*path, number): (self.index, (*source_path, number)) for number in range(len(value))})

    def forget(self, path: Path) -> None:
        length = len(path)
        for leaf in [leaf for leaf in self.origins if leaf[:length] == path]:
            del self.origins[leaf]

    def entries(self, into: list[Any], entries: Sequence[Any], path: Path, source_path: Path) -> None:
        identity = _IDENTITY[str(path[-1])]
        places = {_key(entry, identity): number for number, entry in enumerate(into)}
        for number, entry in enumerate(entries):
            place = places.setdefault(_key(entry, identity), len(into))
            into[place : place + 1] = [entry]
            self.origins[(*path, place)] = (self.index, (*source_path, number))


def _key(entry: Any, identity: Sequence[str]) -> str:
    return repr([entry.get(part) for part in identity] if isinstance(entry, dict) else entry)
