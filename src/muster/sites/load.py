"""Find the profiles, lay them over each other, and hand out one site: a typed value that knows where it came from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import msgspec

from muster.errors import ProfileError, RequestError, UnknownName
from muster.facts import Facts
from muster.sites.heads import DEFAULT_SITE, SearchPath, evidence_from, heads
from muster.sites.layers import Layer, Merged, merge
from muster.sites.match import Sighting, decide
from muster.sites.places import Path
from muster.sites.schema import Fact, Profile, Source
from muster.sites.text import check_version, parse_toml, read_text

__all__ = ["Origin", "Site", "choose_site", "load", "overrides_from"]


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    layer: str
    file: str
    line: int | None
    source: Source | None = None
    reason: str | None = None

    @property
    def checked(self) -> dt.date | None:
        return self.source.checked if self.source else None

    @property
    def trust(self) -> str | None:
        return self.source.trust if self.source else None

    def words(self) -> str:
        """Return words for a person: the document and its date, or the file that the user wrote."""
        if self.source is None:
            return f"{self.file}:{self.line}" if self.line else self.file
        third = ", third party" if self.source.trust == "T" else ""
        return f"{self.source.title}, checked {self.source.checked}{third}"


class Site(msgspec.Struct, frozen=True, dict=True):
    """One site, ready to use."""

    profile: Profile
    layers: tuple[Layer, ...]
    merged: Merged
    notes: tuple[str, ...] = ()
    """How it was chosen."""

    @property
    def name(self) -> str:
        return self.profile.name

    @cached_property
    def _facts(self) -> dict[Path, Fact]:
        facts = self.profile.facts.items()
        return {tuple(key.split(".")): Fact(source=fact) if isinstance(fact, str) else fact for key, fact in facts}

    def get(self, key: str) -> Any:
        """Return the value of a dotted key, as TOML gave it; None where no layer sets it."""
        value: Any = self.merged.table
        for part in self._path(key):
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def origin(self, key: str) -> Origin:
        """Return where a dotted key came from: `memory.mem`, `partitions.small.time_max`, `environment.NCCL_NET`."""
        return self.origin_at(self._path(key))

    def origin_at(self, path: Path) -> Origin:
        """Return the source of a path in the merged tables."""
        origin = self.merged.origin(path)
        if origin is None:
            return Origin("muster", "the default", None)
        layer = self.layers[origin[0]]
        fact = self._fact(path, layer.kind)
        source = self._own_source(path) or (fact.source if fact else None)
        return Origin(
            layer=layer.kind,
            file=layer.file,
            line=layer.line(origin[1]),
            source=self.profile.sources.get(source) if source else None,
            reason=self._own(path, "reason") or (fact.reason if fact else None),
        )

    def _path(self, key: str) -> Path:
        """Return the path of a dotted key; an entry of a list is named by its name, id, path, flag or number."""
        path: tuple[str | int, ...] = ()
        value: Any = self.merged.table
        words = key.split(".")
        while words:
            step, used_words = _step(value, words)
            path, words = (*path, step), words[used_words:]
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                value = None
        return path

    def _fact(self, path: Path, kind: str) -> Fact | None:
        """Return the closest fact of the same kind of layer: a bundled document does not speak of what a user wrote."""
        words = tuple(str(part) for part in path if not isinstance(part, int))
        for length in range(len(words), 0, -1):
            fact = self._facts.get(words[:length])
            if fact is not None:
                said = self.merged.origin(("facts", ".".join(words[:length])))
                return fact if said is not None and self.layers[said[0]].kind == kind else None
        return None

    def _own_source(self, path: Path) -> str | None:
        return self._own(path, "source")

    def _own(self, path: Path, field: str) -> str | None:
        """Return what the innermost entry on the way to this key says of its own source or reason."""
        value: Any = self.merged.table
        entry = None
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                break
            if isinstance(value, dict) and isinstance(value.get(field), str):
                entry = value[field]
        return entry


def _step(value: Any, words: Sequence[str]) -> tuple[str | int, int]:
    """Return the next step into `value`, and how many words name it: a name may itself hold dots."""
    for word_count in range(1, len(words) + 1):
        name = ".".join(words[:word_count])
        if isinstance(value, dict) and name in value:
            return name, word_count
        if isinstance(value, list):
            number = int(name) if name.isdecimal() and len(name) < 10 else _numbered(value, name)
            if number is not None:
                return number, word_count
    return (len(value) if isinstance(value, list) else words[0]), 1


def _numbered(entries: Sequence[Any], name: str) -> int | None:
    """Return the number of the entry of this name."""
    for number, entry in enumerate(entries):
        if isinstance(entry, dict) and name in {entry.get(field) for field in ("name", "id", "path", "flag")}:
            return number
    return None


# ---------------------------------------------------------------- one site


def load(name: str, search: SearchPath | None = None, overrides: Mapping[str, Any] | None = None) -> Site:
    """Return the site of this name, or of this TOML file, with every layer that holds for it."""
    search_path = search or SearchPath()
    layers = [*_base_layers(name, search_path, ()), *_overlay_layers(name, search_path)]
    if overrides:
        layers.append(_override_layer(overrides))
    merged = merge(layers)
    return Site(_profile_of(merged, layers), tuple(layers), merged)


def _profile_of(merged: Merged, layers: Sequence[Layer]) -> Profile:
    """Return the profile. A test holds together what Muster ships; what others wrote is checked here, line by line."""
    if all(layer.kind == "bundled" for layer in layers):
        try:
            return msgspec.convert(merged.table, Profile)
        except msgspec.ValidationError:
            pass  # a bundled file that somebody has edited
    from muster.sites.consistency import check

    return check(merged, layers)


def _base_layers(name: str, search: SearchPath, chain: tuple[tuple[str, Layer], ...]) -> list[Layer]:
    """Return the profile of this name from every folder that has one, after the one that it extends.

    `chain`: the profiles that led here, each with the layer that extends the next.
    """
    names = [earlier_name for earlier_name, _ in chain]
    if name in names:
        cycle = " → ".join([*names, name])
        hint = "one of them has to stand alone"
        raise _about_parent(chain[-1][1], f"profiles extend each other in a circle: {cycle}", hint)
    own_layers = [_layer(kind, path) for kind, path in _files_of(name, search)]
    if not own_layers:
        unknown = UnknownName("site", name, [head.name for head in heads(search)])
        raise _about_parent(chain[-1][1], unknown.message, unknown.hint) if chain else unknown
    extending = next((layer for layer in reversed(own_layers) if isinstance(layer.table.get("extends"), str)), None)
    base_layers = _base_layers(extending.table["extends"], search, (*chain, (name, extending))) if extending else []
    return [*(_inherited(layer) for layer in base_layers), *own_layers]


def _about_parent(layer: Layer, message: str, hint: str | None) -> ProfileError:
    return ProfileError(message, layer.file, line=layer.line(("extends",)), key="extends", hint=hint)


def _inherited(layer: Layer) -> Layer:
    return Layer(layer.kind, layer.file, layer.text, layer.table, inherited=True)


def _files_of(name: str, search: SearchPath) -> list[tuple[str, FilePath]]:
    if name.endswith(".toml") or "/" in name:
        return [("command line", FilePath(name))]
    places = [(kind, folder / f"{name}.toml") for kind, folder in search.folders()]
    return [(kind, path) for kind, path in places if path.exists() and search.trusts(path)]


def _overlay_layers(name: str, search: SearchPath) -> Iterator[Layer]:
    """Yield the layers over a site; one that names a site holds there only."""
    for kind, path in search.overlays():
        if path.exists() and search.trusts(path):
            layer = _layer(kind, path)
            if layer.table.get("name", name) == name:
                yield layer


def _layer(kind: str, path: FilePath) -> Layer:
    text = read_text(path)
    table = parse_toml(text, str(path))
    check_version(table, text, str(path))
    return Layer(kind, str(path), text, table)


def _override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Return the layer of dotted keys given on the command line."""
    table: dict[str, Any] = {}
    for key, value in overrides.items():
        *parents, last = key.split(".")
        inner = table
        for part in parents:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise RequestError(f"{key} is given twice, as a value and as a table", hint="give it once")
        inner[last] = value
    return Layer("command line", "the command line", "", table)


def overrides_from(assignments: Sequence[str]) -> dict[str, Any]:
    """Return KEY=VALUE as typed: a value that is TOML is what TOML says, any other is text."""
    pairs = (text.partition("=")[::2] for text in assignments)
    return {key: _typed(value) for key, value in pairs}


def _typed(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}", "")["value"]
    except ProfileError:
        return text


# ---------------------------------------------------------------- which site


def choose_site(name: str | None, facts: Facts, overrides: Mapping[str, Any] | None = None) -> Site:
    """Return the site that was asked for, else the one that the evidence shows, else `generic`, said aloud."""
    search = SearchPath.of(facts)
    if name is not None:
        return load(name, search, overrides)
    found_heads = heads(search)
    evidence = evidence_from(facts, found_heads)
    sighting = decide(
        evidence,
        {head.name: head.detect for head in found_heads},
        lambda name: next(head.place for head in found_heads if head.name == name),
    )
    site = load(sighting.name or DEFAULT_SITE, search, overrides)
    expected = evidence.in_lab and sighting.name is None
    return Site(site.profile, site.layers, site.merged, () if expected else (_said(sighting),))


def _said(sighting: Sighting) -> str:
    if sighting.name is None:
        return f"no site profile matches this host: {DEFAULT_SITE} is used (muster site list shows the others)"
    return f"this is {sighting.name}: " + "; ".join(sighting.evidence)
