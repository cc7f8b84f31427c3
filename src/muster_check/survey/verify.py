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
from muster.sites.schema import NodeKind, Profile, Queue
from muster.sites.site import Origin, Site
from muster.units import format_walltime, parse_memory_mib, parse_walltime_s


class WrongFact(msgspec.Struct, frozen=True):
    """One fact of a profile that does not hold."""

    key: str
    says: str
    seen: str
    origin: Origin
    value: str | None = None
    """What to write in the profile's place, as --site-set takes it; None: no one value stands for what was seen."""

    @property
    def hint(self) -> str:
        """Return what to type for one command, until the profile is corrected."""
        return "" if self.value is None else f"--site-set {shlex.quote(f'{self.key}={self.value}')}"

    def words(self) -> str:
        """Return words for a person: the fact, what was seen instead, and where the profile says it."""
        place = f"{self.origin.file}:{self.origin.line}" if self.origin.line else self.origin.file
        source = f"; {self.origin.words()}" if self.origin.source else ""
        return f"{self.key}: the profile says {self.says}, the cluster {self.seen} ({place}{source})"


_Misfit = tuple[str, str, str]


def verify(site: Site, measured: Profile) -> list[WrongFact]:
    """Return what the profile says and the cluster does not."""
    profile = site.profile
    misfits = [misfit for check in _CHECKS for misfit in check(profile, measured)]
    return [
        WrongFact(key, sentence, measured_value, site.origin(key), _value(measured, key))
        for key, sentence, measured_value in misfits
    ]


# Keys of which the cluster's own value may stand in the profile as it is.
_SETTABLE = re.compile(
    r"(partitions|qos)\.[^.]+\.(time_max|time_default|nodes_max|nodes_min|gpus)"
    r"|launch\.(kills_on_bad_exit|slurm|mpi_types)|fabric\.(kind|interfaces|hcas)|network\.internet"
    r"|request\.(gres_names|features)"
)


def _value(measured: Profile, key: str) -> str | None:
    """Return what the cluster has at a key, as TOML; of a queue's limit that is gone, no limit."""
    if key == "launch.mpi" and measured.launch.mpi_types:
        return json.dumps(
            next((mpi_type for mpi_type in ("pmix", "pmi2") if mpi_type in measured.launch.mpi_types), "none")
        )
    if not _SETTABLE.fullmatch(key):
        return None
    value: Any = measured
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    if value is None:
        return '"UNLIMITED"' if key.endswith("time_max") else None
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _name(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    names, measured_names = profile.detect.cluster_names, measured.detect.cluster_names
    if names and measured_names and not set(names) & set(measured_names):
        yield "detect.cluster_names", f"the cluster is called {_list(names)}", f"calls itself {_list(measured_names)}"


def _queues(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    kinds: tuple[tuple[str, dict[str, Queue], dict[str, Queue]], ...] = (
        ("partitions", profile.partitions, measured.partitions),
        ("qos", profile.qos, measured.qos),
    )
    for kind, profile_queues, measured_queues in kinds:
        for name, queue in profile_queues.items():
            if not measured_queues or not queue.open:
                continue
            if name not in measured_queues:
                yield f"{kind}.{name}", "it is there", f"has {_list(measured_queues)}"
                continue
            yield from _queue(f"{kind}.{name}", queue, measured_queues[name])


def _queue(key: str, queue: Queue, measured: Queue) -> Iterator[_Misfit]:
    if queue.time_max and _seconds(queue.time_max) != _seconds(measured.time_max):
        yield f"{key}.time_max", queue.time_max, _time(measured.time_max)
    if queue.time_default and measured.time_default and _seconds(queue.time_default) != _seconds(measured.time_default):
        yield f"{key}.time_default", queue.time_default, measured.time_default
    for field in ("nodes_max", "nodes_min"):
        own_value, measured_value = getattr(queue, field), getattr(measured, field)
        if own_value is not None and measured_value is not None and own_value != measured_value:
            yield f"{key}.{field}", str(own_value), str(measured_value)
    if queue.gpus is not None and measured.gpus is not None and queue.gpus != measured.gpus:
        yield f"{key}.gpus", f"{queue.gpus} GPUs a node", f"has {measured.gpus}"


def _seconds(text: str | None) -> int | None:
    return parse_walltime_s(text) if text else None


def _time(text: str | None) -> str:
    seconds = _seconds(text)
    return "has no limit" if seconds is None else format_walltime(seconds)


def _nodes(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    """Compare kinds of node, paired through the partitions that both sides know."""
    done_keys = set()
    for name, queue in profile.partitions.items():
        measured_queue = measured.partitions.get(name)
        if queue.node is None or measured_queue is None or measured_queue.node is None or queue.node in done_keys:
            continue
        done_keys.add(queue.node)
        yield from _node(profile, f"nodes.{queue.node}", profile.nodes[queue.node], measured.nodes[measured_queue.node])


def _node(profile: Profile, key: str, node: NodeKind, measured: NodeKind) -> Iterator[_Misfit]:
    if node.gpus is not None and measured.gpus is not None and node.gpus != measured.gpus:
        yield f"{key}.gpus", str(node.gpus), str(measured.gpus)
    reserved = len(core_list(node.reserved_cores)) if node.reserved_cores else 0
    if node.cores and measured.cores and measured.cores not in {node.cores, node.cores - reserved}:
        reserved_note = f" ({node.cores - reserved} for jobs)" if reserved else ""
        yield f"{key}.cores", f"{node.cores}{reserved_note}", str(measured.cores)
    threads = (node.threads_per_core, measured.threads_per_core)
    if profile.request.cpus == "threads" and all(threads) and threads[0] != threads[1]:
        yield f"{key}.threads_per_core", str(threads[0]), str(threads[1])
    if node.memory_usable and measured.memory_mib and parse_memory_mib(node.memory_usable) > measured.memory_mib:
        yield f"{key}.memory_usable", node.memory_usable, f"{measured.memory_mib}M"
    for field in ("arch", "gpu_kind", "numa", "gpu_numa"):
        own_value, measured_value = getattr(node, field), getattr(measured, field)
        if own_value is not None and measured_value is not None and own_value != measured_value:
            yield f"{key}.{field}", _said(own_value), _said(measured_value)


def _launch(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    types = measured.launch.mpi_types
    if types:
        if profile.launch.mpi is not None and profile.launch.mpi not in types:
            yield "launch.mpi", f"srun --mpi={profile.launch.mpi}", f"offers {_list(types)}"
        missing = [
            mpi_type
            for mpi_type in profile.launch.mpi_types or ()
            if mpi_type not in types and mpi_type != profile.launch.mpi
        ]
        if missing:
            yield "launch.mpi_types", f"it offers {_list(missing)}", f"offers {_list(types)}"
    for field in ("kills_on_bad_exit", "slurm"):
        own_value, measured_value = getattr(profile.launch, field), getattr(measured.launch, field)
        if own_value is not None and measured_value is not None and own_value != measured_value:
            yield f"launch.{field}", _said(own_value), _said(measured_value)
    if profile.rendezvous.reserved_ports and measured.launch.slurm and not measured.rendezvous.reserved_ports:
        yield "rendezvous.reserved_ports", "Slurm reserves ports", "has no MpiParams=ports=…"


def _request(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    for field in ("gres_names", "features"):
        measured_values = getattr(measured.request, field)
        typed_names = [value for value in getattr(profile.request, field) or () if field == "features" or ":" in value]
        words = [word for value in typed_names for word in value.split("&")]
        missing = [word for word in words if measured_values is not None and word not in measured_values]
        if missing:
            yield f"request.{field}", _list(missing), f"has {_list(measured_values) or 'none'}"


def _fabric(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    if measured.fabric.kind and profile.fabric.kind and measured.fabric.kind != profile.fabric.kind:
        yield "fabric.kind", profile.fabric.kind, measured.fabric.kind
    for field in ("interfaces", "hcas"):
        measured_values = getattr(measured.fabric, field)
        missing = [
            value for value in getattr(profile.fabric, field) or () if measured_values and value not in measured_values
        ]
        if missing:
            yield f"fabric.{field}", _list(missing), f"has {_list(measured_values)}"


def _containers(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    """Compare engines; one that a module brings is not there before the module is loaded."""
    measured_engines = [container.engine for container in measured.containers.values()]
    for name, container in profile.containers.items():
        engine = engine_named(container.engine)
        is_on_path = bool(engine.program or engine.step_option) and not container.modules
        if measured_engines and is_on_path and container.engine not in measured_engines:
            yield f"containers.{name}", f"it has {container.engine}", f"has {_list(measured_engines)}"


def _network(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    has_route = {"open": True, "nat": True, "none": False, "none-even-login": False}
    own_value, measured_value = profile.network.internet, measured.network.internet
    if own_value in has_route and measured_value in has_route and has_route[own_value] != has_route[measured_value]:
        yield "network.internet", str(own_value), f"shows {measured_value}"


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
