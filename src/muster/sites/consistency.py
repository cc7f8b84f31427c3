"""What a profile must hold to beyond its shape: names that exist, ranges that are ranges. The error names the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from muster.errors import ProfileError, nearest_hint
from muster.sites.layers import Layer, Merged
from muster.sites.places import Path, spell
from muster.sites.read import Broken, struct_keys, to_profile
from muster.sites.schema import Node, Profile, Variable

__all__ = ["check"]

_FREE_TABLES = ("facts", "unpublished", "sources", "unverified")


def check(merged: Merged, layers: Sequence[Layer]) -> Profile:
    """The profile, or an error that names the file and line of the first thing that does not fit or hold together."""
    profile = to_profile(merged.table)
    if isinstance(profile, Broken):
        raise _error(profile, merged, layers)
    for broken in _findings(profile, merged.table):
        raise _error(broken, merged, layers)
    return profile


def _error(broken: Broken, merged: Merged, layers: Sequence[Layer]) -> ProfileError:
    found = merged.origin(broken.path)
    layer = layers[found[0]] if found else layers[-1]
    line = layer.line((*found[1], *broken.path[len(found[1]) :])) if found else None
    return ProfileError(broken.message, layer.file, line=line, key=spell(broken.path) or None, hint=broken.hint)


def _findings(profile: Profile, table: dict[str, Any]) -> Iterator[Broken]:
    yield from _sources(profile, table)
    yield from _keys(profile)
    yield from _nodes(profile)
    yield from _queues(profile)
    yield from _launch(profile)
    yield from _environment(profile.environment)
    yield from _patterns(profile)


def _sources(profile: Profile, table: dict[str, Any]) -> Iterator[Broken]:
    for key, fact in profile.facts.items():
        name = fact if isinstance(fact, str) else fact.source
        if name not in profile.sources:
            yield _unknown(("facts", key), "source", name, profile.sources)
    for path, name in _named_sources(table, ()):
        if name not in profile.sources:
            yield _unknown(path, "source", name, profile.sources)


def _named_sources(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "source" and isinstance(child, str):
                yield path, child
            elif path or key not in _FREE_TABLES:
                yield from _named_sources(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _named_sources(child, (*path, index))


def _keys(profile: Profile) -> Iterator[Broken]:
    """`facts` and `unpublished` speak of keys that the schema has."""
    top = struct_keys(Profile)
    for table in ("facts", "unpublished"):
        for key in getattr(profile, table):
            first, *rest = key.split(".")
            if first not in top:
                yield _unknown((table, key), "key", first, top)
                continue
            value = getattr(profile, first)
            if rest and isinstance(value, msgspec.Struct) and rest[0] not in struct_keys(type(value)):
                yield _unknown((table, key), "key", rest[0], struct_keys(type(value)))
            if rest and isinstance(value, dict) and rest[0] not in value and table == "facts":
                yield _unknown((table, key), "key", rest[0], value)


def _nodes(profile: Profile) -> Iterator[Broken]:
    for name, node in profile.nodes.items():
        yield from _tables(node, ("nodes", name))


def _tables(node: Node, path: Path) -> Iterator[Broken]:
    if node.gpu_numa is not None:
        domains = len(node.numa or ())
        if node.gpus is not None and len(node.gpu_numa) != node.gpus:
            yield Broken((*path, "gpu_numa"), f"has {len(node.gpu_numa)} entries for {node.gpus} GPUs", "one for each")
        if any(domain >= domains for domain in node.gpu_numa):
            yield Broken((*path, "gpu_numa"), f"names a domain beyond the {domains} of `numa`", "they count from 0")
    if node.gpus and node.cores_per_gpu and node.cores and node.gpus * node.cores_per_gpu > node.cores:
        product = f"{node.gpus} GPUs × {node.cores_per_gpu} cores = {node.gpus * node.cores_per_gpu}"
        yield Broken((*path, "cores_per_gpu"), f"{product}, and the node has {node.cores}", "cores, not threads")


def _queues(profile: Profile) -> Iterator[Broken]:
    for kind in ("partitions", "qos"):
        for name, queue in getattr(profile, kind).items():
            if queue.node is not None and queue.node not in profile.nodes:
                yield _unknown((kind, name, "node"), "kind of node", queue.node, profile.nodes)
    for number, rule in enumerate(profile.queue_rules):
        for kind, name in (("partitions", rule.partition), ("qos", rule.qos)):
            known = getattr(profile, kind)
            if name is not None and known and name not in known:
                yield _unknown(("queue_rules", number), kind.rstrip("s"), name, known)


def _launch(profile: Profile) -> Iterator[Broken]:
    launch, meeting = profile.launch, profile.rendezvous
    if launch.preferred and launch.allowed and launch.preferred not in launch.allowed:
        yield Broken(("launch", "preferred"), f"{launch.preferred} is not one of `allowed`", "add it there")
    if (meeting.port_low or 0) > (meeting.port_high or 65535):
        yield Broken(("rendezvous", "port_low"), "is above port_high", "low first")
    if meeting.host == "suffix" and not meeting.suffix:
        yield Broken(("rendezvous", "host"), "is 'suffix', and no suffix is given", 'suffix = "i"')
    if meeting.host == "interface" and not meeting.interface:
        yield Broken(("rendezvous", "host"), "is 'interface', and none is given", 'interface = "ib0"')


def _environment(variables: Sequence[Variable]) -> Iterator[Broken]:
    for number, variable in enumerate(variables):
        path: Path = ("environment", number)
        if variable.unset and variable.value is not None:
            yield Broken(path, f"{variable.name} is both set and unset", "give `value`, or `unset = true`")
        if not variable.unset and variable.value is None and variable.verdict != "dropped":
            yield Broken(path, f"{variable.name} has no value", "give `value`, or `unset = true`")


def _patterns(profile: Profile) -> Iterator[Broken]:
    detect = profile.detect
    patterns: list[tuple[str, Iterable[str]]] = [
        ("hosts", detect.hosts),
        ("nodes", detect.nodes),
        ("environment", detect.environment.values()),
    ]
    for key, texts in patterns:
        for text in texts:
            try:
                re.compile(text)
            except re.error as error:
                yield Broken(("detect", key), f"{text!r} is no regular expression: {error}", "escape it with \\")


def _unknown(path: Path, kind: str, name: str, known: Iterable[str]) -> Broken:
    return Broken(path, f"there is no {kind} named {name!r}", nearest_hint(name, sorted(known)))
