"""One site: a typed value that knows where each of its facts came from. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from muster.sites.layers import Layer, Merged
from muster.sites.schema import Fact, Profile, Source

if TYPE_CHECKING:
    from muster.sites.places import Path
    from muster.slurm.cluster_facts import ClusterFacts

LAYER = "cluster"
SAID_HERE = "what Slurm says here"
"""The origin of every value that is the cluster's own word."""

Signature = tuple[int, int, tuple[tuple[str, int], ...]]
"""What makes two nodes of one kind: CPUs, cores and GPUs."""


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    layer: str
    file: str
    source: Source | None = None
    reason: str | None = None
    place: tuple[Layer, Path] | None = None
    """The text that sets the value, and its path there; None: no text does."""

    @property
    def line(self) -> int | None:
        """Return the line of the file. It is looked for where somebody wants to know: most launches do not."""
        return None if self.place is None else self.place[0].line(self.place[1])

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


class Disagreement(msgspec.Struct, frozen=True):
    """One value of the profile that the cluster does not confirm."""

    key: str
    profile: str
    """What the profile says; empty where the cluster has nothing of this name."""

    place: str
    """Where the profile has it from."""

    cluster: str | None
    """What Slurm says; None: there is nothing of this name here."""

    def is_about(self, keys: Collection[str]) -> bool:
        """Return whether one of these keys is this one, or stands above it."""
        words = self.key.split(".")
        return any(".".join(words[:length]) in keys for length in range(1, len(words) + 1))

    def words(self) -> str:
        """Return both values with both origins, in one line."""
        if self.cluster is None:
            return f"{self.key}: none ({SAID_HERE}), but the profile has one ({self.place})"
        return f"{self.key}: {self.cluster} ({SAID_HERE}), not {self.profile} ({self.place})"


class Site(msgspec.Struct, frozen=True, dict=True):
    """One site, ready to use."""

    profile: Profile
    layers: tuple[Layer, ...]
    merged: Merged
    notes: tuple[str, ...] = ()
    """How it was chosen."""

    cluster: ClusterFacts | None = None
    """What Slurm says here; None: it was not asked, or this is another site."""

    kind_names: Mapping[Signature, str] = {}
    """The kinds of node that Slurm shows, by their names in the profile."""

    is_described: bool = True
    """Whether the profile itself describes nodes or queues; without them Slurm's word is all there is."""

    disagreements: tuple[Disagreement, ...] = ()
    """What the profile says and Slurm does not."""

    is_here: bool | None = None
    """Whether the command was typed there, as signs show; None: no sign tells, or nobody looked."""

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def partitions_there(self) -> frozenset[str] | None:
        """Return the partitions that Slurm shows here; None: it was not asked."""
        return None if self.cluster is None else frozenset(partition.name for partition in self.cluster.partitions)

    @cached_property
    def _facts(self) -> dict[Path, Fact]:
        facts = self.profile.facts.items()
        return {tuple(key.split(".")): Fact(source=fact) if isinstance(fact, str) else fact for key, fact in facts}

    def says(self, key: str) -> str | None:
        """Return the sentence of the source that a rule rests on, by its dotted key; None: it is Muster's own."""
        fact = self._facts.get(tuple(key.split(".")))
        return fact.says if fact else None

    def get(self, key: str) -> Any:
        """Return the value of a dotted key, as TOML gave it; None where no layer sets it."""
        return self.value_at(self._path(key))

    def value_at(self, path: Path) -> Any:
        """Return the value at a path of the merged tables; None where no layer sets it."""
        value: Any = self.merged.table
        for part in path:
            value = _child(value, part)
        return value

    def origin(self, key: str) -> Origin:
        """Return where a dotted key came from: `memory.mem`, `partitions.small.time_max`, `environment.NCCL_NET`."""
        return self.origin_at(self._path(key))

    def origin_at(self, path: Path) -> Origin:
        """Return the source of a path in the merged tables."""
        origin = self.merged.origin(path)
        if origin is None:
            return Origin("muster", "the default")
        layer = self.layers[origin[0]]
        if layer.kind == LAYER:
            return Origin(layer.kind, layer.file)
        fact = self._fact(path, layer.kind)
        source = self._own(path, "source") or (fact.source if fact else None)
        return Origin(
            layer=layer.kind,
            file=layer.file,
            source=self.profile.sources.get(source) if source else None,
            reason=self._own(path, "reason") or (fact.reason if fact else None),
            place=(layer, origin[1]),
        )

    def _path(self, key: str) -> Path:
        """Return the path of a dotted key; an entry of a list is named by its name, id, path, flag or number."""
        path: tuple[str | int, ...] = ()
        value: Any = self.merged.table
        words = key.split(".")
        while words:
            step, used_words = _step(value, words)
            path, words = (*path, step), words[used_words:]
            value = _child(value, step)
        return path

    def _fact(self, path: Path, kind: str) -> Fact | None:
        """Return the closest fact of the same kind of layer: a bundled document does not speak of what a user wrote."""
        words = tuple(self._words(path))
        for length in range(len(words), 0, -1):
            fact = self._facts.get(words[:length])
            if fact is not None:
                said = self.merged.origin(("facts", ".".join(words[:length])))
                return fact if said is not None and self.layers[said[0]].kind == kind else None
        return None

    def _words(self, path: Path) -> Iterator[str]:
        """Yield the words by which `facts` names this path; a number only where it stands for a word of a list."""
        value: Any = self.merged.table
        for part in path:
            value = _child(value, part)
            word = value if isinstance(part, int) else part
            if isinstance(word, str):
                yield word

    def _own(self, path: Path, field: str) -> str | None:
        """Return what the innermost entry on the way to this key says of its own source or reason."""
        value: Any = self.merged.table
        entry = None
        for part in path:
            value = _child(value, part)
            if isinstance(value, dict) and isinstance(value.get(field), str):
                entry = value[field]
        return entry


def _child(value: Any, part: str | int) -> Any:
    """Return what stands at a key or a number of a value; None where there is nothing."""
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


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
        if entry == name:
            return number
        if isinstance(entry, dict) and name in {entry.get(field) for field in ("name", "id", "path", "flag")}:
            return number
    return None
