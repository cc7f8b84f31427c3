"""Does a profile hold? Compared with what the cluster itself answers: a finding for each fact that does not. Pure.

The cluster's side is a draft of the same shape (draft.py), so both sides are profiles. What one of them does not know
is not compared.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from muster.images import engine_named
from muster.policy.masks import core_list
from muster.sites.load import Origin, Site
from muster.sites.schema import Node, Profile, Queue
from muster.units import format_walltime, parse_memory_mib, parse_walltime_s

__all__ = ["Finding", "verify"]


class Finding(msgspec.Struct, frozen=True):
    """One fact of a profile that does not hold."""

    key: str
    says: str
    seen: str
    origin: Origin
    value: str | None = None
    """What to write in the profile's place, as --site-set takes it; None: no one value stands for what was seen."""

    @property
    def hint(self) -> str:
        """What to type for one command, until the profile is corrected."""
        return "" if self.value is None else f"--site-set {shlex.quote(f'{self.key}={self.value}')}"

    def words(self) -> str:
        """For a person: the fact, what was seen instead, and where the profile says it."""
        where = f"{self.origin.file}:{self.origin.line}" if self.origin.line else self.origin.file
        source = f"; {self.origin.words()}" if self.origin.source else ""
        return f"{self.key}: the profile says {self.says}, the cluster {self.seen} ({where}{source})"


_Misfit = tuple[str, str, str]


def verify(site: Site, seen: Profile) -> list[Finding]:
    """Return what the profile says and the cluster does not."""
    profile = site.profile
    misfits = [misfit for check in _CHECKS for misfit in check(profile, seen)]
    return [Finding(key, says, found, site.origin(key), _value(seen, key)) for key, says, found in misfits]


# Keys of which the cluster's own value may stand in the profile as it is.
_SETTABLE = re.compile(
    r"(partitions|qos)\.[^.]+\.(time_max|time_default|nodes_max|nodes_min|gpus)"
    r"|launch\.(kills_on_bad_exit|slurm|mpi_types)|fabric\.(kind|interfaces|hcas)|network\.internet"
    r"|request\.(gres_names|features)"
)


def _value(seen: Profile, key: str) -> str | None:
    """Return what the cluster has at a key, as TOML; of a queue's limit that is gone, no limit."""
    if key == "launch.mpi" and seen.launch.mpi_types:
        return json.dumps(next((each for each in ("pmix", "pmi2") if each in seen.launch.mpi_types), "none"))
    if not _SETTABLE.fullmatch(key):
        return None
    found: Any = seen
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    if found is None:
        return '"UNLIMITED"' if key.endswith("time_max") else None
    return json.dumps(list(found) if isinstance(found, tuple) else found)


def _name(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    names, found = profile.detect.cluster_names, seen.detect.cluster_names
    if names and found and not set(names) & set(found):
        yield "detect.cluster_names", f"the cluster is called {_list(names)}", f"calls itself {_list(found)}"


def _queues(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    kinds: tuple[tuple[str, dict[str, Queue], dict[str, Queue]], ...] = (
        ("partitions", profile.partitions, seen.partitions),
        ("qos", profile.qos, seen.qos),
    )
    for kind, said, there in kinds:
        for name, queue in said.items():
            if not there or not queue.open:
                continue
            if name not in there:
                yield f"{kind}.{name}", "it is there", f"has {_list(there)}"
                continue
            yield from _queue(f"{kind}.{name}", queue, there[name])


def _queue(key: str, queue: Queue, there: Queue) -> Iterator[_Misfit]:
    if queue.time_max and _seconds(queue.time_max) != _seconds(there.time_max):
        yield f"{key}.time_max", queue.time_max, _time(there.time_max)
    if queue.time_default and there.time_default and _seconds(queue.time_default) != _seconds(there.time_default):
        yield f"{key}.time_default", queue.time_default, there.time_default
    for field in ("nodes_max", "nodes_min"):
        mine, theirs = getattr(queue, field), getattr(there, field)
        if mine is not None and theirs is not None and mine != theirs:
            yield f"{key}.{field}", str(mine), str(theirs)
    if queue.gpus is not None and there.gpus is not None and queue.gpus != there.gpus:
        yield f"{key}.gpus", f"{queue.gpus} GPUs a node", f"has {there.gpus}"


def _seconds(text: str | None) -> int | None:
    return parse_walltime_s(text) if text else None


def _time(text: str | None) -> str:
    seconds = _seconds(text)
    return "has no limit" if seconds is None else format_walltime(seconds)


def _nodes(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    """Kinds of node are paired through the partitions that both sides know."""
    done = set()
    for name, queue in profile.partitions.items():
        there = seen.partitions.get(name)
        if queue.node is None or there is None or there.node is None or queue.node in done:
            continue
        done.add(queue.node)
        yield from _node(profile, f"nodes.{queue.node}", profile.nodes[queue.node], seen.nodes[there.node])


def _node(profile: Profile, key: str, node: Node, there: Node) -> Iterator[_Misfit]:
    if node.gpus is not None and there.gpus is not None and node.gpus != there.gpus:
        yield f"{key}.gpus", str(node.gpus), str(there.gpus)
    reserved = len(core_list(node.reserved_cores)) if node.reserved_cores else 0
    if node.cores and there.cores and there.cores not in {node.cores, node.cores - reserved}:
        kept = f" ({node.cores - reserved} for jobs)" if reserved else ""
        yield f"{key}.cores", f"{node.cores}{kept}", str(there.cores)
    threads = (node.threads_per_core, there.threads_per_core)
    if profile.request.cpus == "threads" and all(threads) and threads[0] != threads[1]:
        yield f"{key}.threads_per_core", str(threads[0]), str(threads[1])
    if node.memory_usable and there.memory_mib and parse_memory_mib(node.memory_usable) > there.memory_mib:
        yield f"{key}.memory_usable", node.memory_usable, f"{there.memory_mib}M"
    for field in ("arch", "gpu_kind", "numa", "gpu_numa"):
        mine, theirs = getattr(node, field), getattr(there, field)
        if mine is not None and theirs is not None and mine != theirs:
            yield f"{key}.{field}", _said(mine), _said(theirs)


def _launch(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    types = seen.launch.mpi_types
    if types:
        if profile.launch.mpi is not None and profile.launch.mpi not in types:
            yield "launch.mpi", f"srun --mpi={profile.launch.mpi}", f"offers {_list(types)}"
        missing = [each for each in profile.launch.mpi_types or () if each not in types and each != profile.launch.mpi]
        if missing:
            yield "launch.mpi_types", f"it offers {_list(missing)}", f"offers {_list(types)}"
    for field in ("kills_on_bad_exit", "slurm"):
        mine, theirs = getattr(profile.launch, field), getattr(seen.launch, field)
        if mine is not None and theirs is not None and mine != theirs:
            yield f"launch.{field}", _said(mine), _said(theirs)
    if profile.rendezvous.reserved_ports and seen.launch.slurm and not seen.rendezvous.reserved_ports:
        yield "rendezvous.reserved_ports", "Slurm reserves ports", "has no MpiParams=ports=…"


def _request(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    for field in ("gres_names", "features"):
        there = getattr(seen.request, field)
        typed = [each for each in getattr(profile.request, field) or () if field == "features" or ":" in each]
        words = [word for each in typed for word in each.split("&")]
        missing = [word for word in words if there is not None and word not in there]
        if missing:
            yield f"request.{field}", _list(missing), f"has {_list(there) or 'none'}"


def _fabric(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    if seen.fabric.kind and profile.fabric.kind and seen.fabric.kind != profile.fabric.kind:
        yield "fabric.kind", profile.fabric.kind, seen.fabric.kind
    for field in ("interfaces", "hcas"):
        there = getattr(seen.fabric, field)
        missing = [each for each in getattr(profile.fabric, field) or () if there and each not in there]
        if missing:
            yield f"fabric.{field}", _list(missing), f"has {_list(there)}"


def _containers(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    """An engine that a module brings is not there before the module is loaded."""
    there = [each.engine for each in seen.containers.values()]
    for name, container in profile.containers.items():
        engine = engine_named(container.engine)
        known = bool(engine.program or engine.step_option) and not container.modules
        if there and known and container.engine not in there:
            yield f"containers.{name}", f"it has {container.engine}", f"has {_list(there)}"


def _network(profile: Profile, seen: Profile) -> Iterator[_Misfit]:
    out = {"open": True, "nat": True, "none": False, "none-even-login": False}
    mine, theirs = profile.network.internet, seen.network.internet
    if mine in out and theirs in out and out[mine] != out[theirs]:
        yield "network.internet", str(mine), f"shows {theirs}"


def _said(value: Any) -> str:
    return _list(map(str, value)) if isinstance(value, tuple) else str(value)


def _list(words: Collection[str] | Iterator[str]) -> str:
    return ", ".join(words)


_CHECKS: tuple[Callable[[Profile, Profile], Iterator[_Misfit]], ...] = (
    _name,
    _queues,
    _nodes,
    _launch,
    _request,
    _fabric,
    _containers,
    _network,
)
