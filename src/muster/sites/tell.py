"""A site as a person or a program reads it: every value with where it came from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from muster.sites.places import Path
from muster.sites.schema import Profile, When
from muster.sites.schema_queues import ONE_THREAD
from muster.sites.site import Origin, Site
from muster.sites.when import say_when

# Provenance itself is not a fact of the site.
_NOT_SHOWN = frozenset({"muster_site", "sources", "facts", "unpublished", "unverified", "extends", "without"})


class ProfileLine(msgspec.Struct, frozen=True):
    """One value of a profile."""

    key: str
    value: str
    origin: Origin


def lines(site: Site) -> Iterator[ProfileLine]:
    """Yield every value that the profile gives, in its own order."""
    for key, value in site.merged.table.items():
        if key not in _NOT_SHOWN:
            for path, leaf in _leaves((key,), value):
                text = _spell(path, site.merged.table)
                yield ProfileLine(text, _words(leaf), site.origin_at(path))


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            if key == "when":
                yield (*path, key), say_when(msgspec.convert(child, When))
            elif key not in {"reason", "source"}:
                yield from _leaves((*path, key), child)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, child in enumerate(value):
            yield from _leaves((*path, number), child)
    else:
        yield path, value


def _spell(path: Path, table: Mapping[str, Any]) -> str:
    """Return the path as `site.origin` reads it; an entry is called by its name where that is enough."""
    words: list[str] = []
    value: Any = table
    for part in path:
        name = str(part)
        if isinstance(part, int):
            entry = value[part]
            called = next((entry[field] for field in ("name", "id", "path") if field in entry), None)
            alike = [item for item in value if called in item.values()]
            name = str(called) if len(alike) == 1 else str(part)
        value = value[part]
        words.append(name)
    return ".".join(words)


def _words(value: Any) -> str:
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) if value else "none"
    return str(value) if value != {} else "none"


def third_party_keys(site: Site) -> list[str]:
    """Return the keys that only a third party vouches for; an entry of a table is named once, not value by value."""
    keys = [line.key for line in lines(site) if line.origin.trust == "T"]
    return list(dict.fromkeys(".".join(key.split(".")[:2]) for key in keys))


def as_json(site: Site) -> dict[str, Any]:
    """Return the whole site for a program: the profile as it holds here, and the origin of each of its values."""
    return {
        "site": site.name,
        "layers": [{"layer": layer.kind, "file": layer.file} for layer in site.layers],
        "profile": msgspec.to_builtins(site.profile),
        "origins": {line.key: _origin_as_json(line.origin) for line in lines(site)},
        "missing": list(missing_keys(site)),
    }


def _origin_as_json(origin: Origin) -> dict[str, Any]:
    return {
        "layer": origin.layer,
        "file": origin.file,
        "line": origin.line,
        "source": origin.source.title if origin.source else None,
        "at": origin.source.at if origin.source else None,
        "checked": str(origin.checked) if origin.checked else None,
        "trust": origin.trust,
        "reason": origin.reason,
    }


# Keys that have no meaning where another key has a certain value.
_DEPENDS: dict[str, tuple[str, frozenset[Any]]] = {
    "rendezvous.suffix": ("rendezvous.host", frozenset({"suffix"})),
    "rendezvous.interface": ("rendezvous.host", frozenset({"interface"})),
    "launch.mpirun_starts_with": ("launch.mpirun", frozenset()),
}

# What only some sites have: its absence says nothing.
_OPTIONAL = frozenset(
    {
        *("request.gpu_type", "request.account_suffix", "request.slurm_cpus"),
        *("devices.cut_by_site", "modules.torch", "launch.hang_s", "launch.queues_from_jobs"),
        *("memory.default_per_cpu",),
        *("request.time_min", "request.time_max"),
    }
)

# Parts that a complete profile fills, entry by entry or as a whole.
_PARTS = (
    *("request", "memory", "launch", "rendezvous", "devices", "binding", "modules", "fabric", "network"),
    *("probes", "help"),
)
_COLLECTIONS = (
    *("nodes", "partitions", "qos", "environment", "commands", "containers", "images", "filesystems"),
    *("bandwidth", "quirks"),
)


def missing_keys(site: Site) -> Iterator[str]:
    """Yield keys without a value that are not called unpublished either: a complete profile has none."""
    profile = site.profile
    for part in _PARTS:
        yield from _missing_in(site, part, getattr(profile, part))
    for name, node in profile.nodes.items():
        if node.gpus:
            yield from _missing_in(site, f"nodes.{name}", node)
    for collection in _COLLECTIONS:
        if not getattr(profile, collection) and not _said_unpublished(site, collection):
            yield collection


def _missing_in(site: Site, prefix: str, part: msgspec.Struct) -> Iterator[str]:
    kind = type(part)
    for name, encode_name in zip(kind.__struct_fields__, kind.__struct_encode_fields__):
        key = f"{prefix}.{encode_name}"
        if getattr(part, name) is None and not _meaningless(site, key) and not _said_unpublished(site, key):
            yield key


def _meaningless(site: Site, key: str) -> bool:
    if key.startswith("nodes.") and key.rpartition(".")[2] in {"gpu_type", "mem_per_gpu"}:
        return True  # what holds for all kinds of node stands in `request` and `memory`
    if key in _OPTIONAL or key in _DEPENDS:
        other_key, values = _DEPENDS.get(key, ("", frozenset()))
        return key in _OPTIONAL or (site.get(other_key) not in values if values else not site.get(other_key))
    return False


def _said_unpublished(site: Site, key: str) -> bool:
    words = key.split(".")
    return any(".".join(words[:length]) in site.profile.unpublished for length in range(1, len(words) + 1))


# ---------------------------------------------------------------- what the writer of a profile may have missed


def remarks(site: Site) -> Iterator[str]:
    """Yield warnings of what the writer of a profile may not mean; none of the profiles that Muster brings."""
    profile = site.profile
    if all(layer.kind == "bundled" for layer in site.layers):
        return
    yield from _threads(profile)
    yield from _jobs_without_share(profile)
    takes_all = any(rule.when == When() and rule.partition for rule in profile.queue_rules)
    if profile.partitions and not takes_all and not any(queue.default for queue in profile.partitions.values()):
        yield "no partition is the default and no queue rule takes every job: some jobs get no partition unless typed"
    named = {line.origin.source.title for line in lines(site) if line.origin.source is not None}
    for name, source in profile.sources.items():
        if source.title not in named:
            yield f'sources.{name}: no value comes from it; [facts] says which do: partitions = "{name}"'


def _threads(profile: Profile) -> Iterator[str]:
    request = profile.request
    if request.cpus != "cores" or request.slurm_cpus or ONE_THREAD & set(request.sbatch or ()):
        return
    for name, node in profile.nodes.items():
        threads = node.threads_per_core or 1
        if threads > 1 and node.cores:
            yield (
                f'request.cpus is "cores", but a core of nodes.{name} has {threads} threads. Where `scontrol show '
                f'node` says CPUTot={node.cores * threads}, write "threads", else its jobs get a part of their cores; '
                f'where it says CPUTot={node.cores}, write slurm_cpus = "cores"'
            )


def _jobs_without_share(profile: Profile) -> Iterator[str]:
    """Yield each kind of node with GPUs whose jobs ask for no CPUs or no memory."""
    for name, node in profile.nodes.items():
        has_memory = profile.memory.policy != "per-gpu" or node.mem_per_gpu or profile.memory.mem_per_gpu
        missing = [
            *([] if node.cores_per_gpu or node.cores else ["CPUs (`cores`)"]),
            *([] if has_memory else ["memory (`mem_per_gpu`)"]),
        ]
        if node.gpus and missing:
            yield f"nodes.{name}: its jobs ask for no {' and no '.join(missing)}, so Slurm's default holds"
