"""What Slurm says of a cluster, as a layer over the site's profile: the cluster's word comes before a document's. Pure.

The layer holds only what the profile does not say, or says otherwise: so it is also the list of their disagreements.
What Slurm cannot say (modules, fabric, binding) stays the profile's. A limit that Slurm does not have is no
contradiction: the site may enforce it elsewhere. (Of a time beyond it the plan warns, and Slurm decides.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from muster.sites.layers import Layer
from muster.sites.schema import NodeKind, Profile, Queue
from muster.sites.schema_queues import ONE_THREAD
from muster.sites.site import LAYER, SAID_HERE, Signature
from muster.slurm.cluster import QosLimit
from muster.slurm.cluster_facts import ClusterFacts, KindFacts, PartitionFacts
from muster.units import format_walltime, known_walltime_s, parse_memory_mib

Preempted = Literal["requeue", "cancel", "suspend"]


class LiveLayer(msgspec.Struct, frozen=True):
    """The layer, and what the kinds of node are called in it."""

    layer: Layer
    kind_names: Mapping[Signature, str]


def signature(kind: KindFacts) -> Signature:
    """Return what makes two nodes of one kind: CPUs, cores and GPUs."""
    return kind.cpus, kind.cores, kind.gpus


def live_layer(profile: Profile, cluster: ClusterFacts) -> LiveLayer:
    """Return the layer of what this cluster says beside, or against, the profile."""
    names = _name_kinds(profile, cluster)
    table: dict[str, Any] = {}
    without = [f"partitions.{name}" for name in profile.partitions if cluster.partition(name) is None]
    if cluster.qos:
        without += [f"qos.{name}" for name in profile.qos if cluster.qos_named(name) is None]
    counts_threads = _counts_threads(profile, cluster, names)
    asked: dict[str, Any] = {}
    if counts_threads is not None:
        asked["cpus"] = "threads" if counts_threads else "cores"
    if not cluster.counts_gpus and profile.request.gpus == "gpus-per-node":
        asked["gpus"] = "gres"
    if not profile.nodes and not profile.request.features:
        asked["features"] = list(dict.fromkeys(feature for kind in cluster.kinds for feature in kind.features))
    table["request"] = {key: value for key, value in asked.items() if value}
    nodes = {}
    for kind in _largest_of_each(cluster):
        name = names[signature(kind)]
        if name not in nodes:
            nodes[name], lost_keys = _node(profile, cluster, name, kind, threads_matter=bool(counts_threads))
            without += lost_keys
    partitions = {each.name: _partition(profile, cluster, each, names) for each in cluster.partitions}
    qos = {each.name: _qos(profile, cluster, each) for each in cluster.qos}
    table |= {"nodes": nodes, "partitions": partitions, "qos": {name: value for name, value in qos.items() if value}}
    memory = _memory(profile, cluster)
    table |= {"memory": memory} if memory else {}
    if profile.rendezvous.reserved_ports and not cluster.has_ports:
        table["rendezvous"] = {"reserved_ports": False}
    table = {key: value for key, value in table.items() if value}
    if without:
        table["without"] = without
    return LiveLayer(Layer(LAYER, SAID_HERE, "", table), names)


def _largest_of_each(cluster: ClusterFacts) -> list[KindFacts]:
    """Return one row of each kind: the one of the partition that has most of its nodes, with the least memory seen."""
    largest: dict[Signature, KindFacts] = {}
    for kind in cluster.kinds:
        other = largest.get(signature(kind))
        if other is None or kind.nodes > other.nodes:
            largest[signature(kind)] = kind
    return sorted(largest.values(), key=lambda kind: -kind.gpu_count)


# ---------------------------------------------------------------- kinds of node


def _name_kinds(profile: Profile, cluster: ClusterFacts) -> dict[Signature, str]:
    """Return the name of each kind of node: the profile's, where the kind is one of it or stands in its place."""
    kinds = _largest_of_each(cluster)
    names: dict[Signature, str] = {}
    for kind in kinds:
        alike = [name for name, node in profile.nodes.items() if _is_alike(profile, node, kind)]
        paired = [name for name in _names_by_partition(profile, cluster, kind) if name in alike]
        if alike:
            names[signature(kind)] = (paired or alike)[0]
    for kind in kinds:
        if signature(kind) in names:
            continue
        free = [name for name in _names_by_partition(profile, cluster, kind) if name not in names.values()]
        names[signature(kind)] = free[0] if free else name_of_kind(kind, {*profile.nodes, *names.values()})
    return names


def _names_by_partition(profile: Profile, cluster: ClusterFacts, kind: KindFacts) -> list[str]:
    """Return the profile's kinds of the partitions that have this one, the most frequent first.

    A kind with GPUs never stands in the place of one without.
    """
    partitions = (each.partition for each in cluster.kinds if signature(each) == signature(kind))
    queues = (profile.partitions.get(name, Queue()) for name in partitions)
    counts = Counter(name for queue in queues for name in (queue.node, *queue.other_nodes) if name is not None)
    return [name for name, _ in counts.most_common() if bool(profile.nodes[name].gpus) == bool(kind.gpu_count)]


def _is_alike(profile: Profile, node: NodeKind, kind: KindFacts) -> bool:
    """Return whether a kind of the profile may be this one: as many GPUs and cores, and no other type of GPU."""
    if node.gpus is not None and node.gpus != kind.gpu_count:
        return False
    known_type = node.gpu_type if node.gpu_type is not None else _type_of_all(profile)
    if known_type and kind.gpus and known_type not in {name for name, _ in kind.gpus}:
        return False
    return node.cores is None or not {kind.cores, kind.cpus}.isdisjoint(_core_counts(node))


def _type_of_all(profile: Profile) -> str | None:
    """Return the type of all GPUs of the site; None where it has several, or names none."""
    with_gpus = [node for node in profile.nodes.values() if node.gpus]
    return profile.request.gpu_type if len(with_gpus) == 1 else None


def _core_counts(node: NodeKind) -> set[int]:
    """Return the counts that Slurm may have for a node: with or without reserved cores, in cores or in threads."""
    cores = node.cores or 0
    free = cores - sum(_width(part) for part in (node.reserved_cores or "").split(",") if part)
    threads = node.threads_per_core or 1
    return {cores, free, cores * threads, free * threads}


def _width(part: str) -> int:
    low, _, high = part.partition("-")
    return int(high or low) - int(low) + 1


def name_of_kind(kind: KindFacts, taken: Collection[str] = ()) -> str:
    """Return a name for a kind of node that no profile names: what its GPUs are, and how many."""
    gpu_type = next((name for name, _ in kind.gpus), "") or "gpu"
    base = f"{gpu_type}-{kind.gpu_count}".replace(".", "-") if kind.gpu_count else f"cpu-{kind.cpus}"
    return next(name for number in range(1, 1000) if (name := base if number == 1 else f"{base}-{number}") not in taken)


def _cores_of_a_gpu(cluster: ClusterFacts, kind: KindFacts) -> int | None:
    """Return the cores that a partition gives with a GPU, or leaves for one; None: the node's own share is right."""
    partition = cluster.partition(kind.partition)
    if partition is None or not kind.gpu_count or not (partition.cpus_per_gpu or partition.cpus_per_node_max):
        return None
    cpus = partition.cpus_per_gpu or (partition.cpus_per_node_max or 0) // kind.gpu_count
    return max(1, min(cpus // kind.threads, kind.cores // kind.gpu_count))


def _node(
    profile: Profile, cluster: ClusterFacts, name: str, kind: KindFacts, *, threads_matter: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return what a kind of node has here, and the keys of the profile that cannot hold any more."""
    node = profile.nodes.get(name)
    types = [gpu_type for gpu_type, _ in kind.gpus]
    if node is None or not _is_alike(profile, node, kind):
        value: dict[str, Any] = {"gpus": kind.gpu_count, "cores": max(1, kind.cores), "threads_per_core": kind.threads}
        if kind.memory_mib:
            value["memory_mib"] = kind.memory_mib
        share = _cores_of_a_gpu(cluster, kind)
        if share:
            value["cores_per_gpu"] = share
        named_type = node.gpu_type if node is not None and node.gpu_type is not None else profile.request.gpu_type
        if types and named_type is not None and named_type not in types:
            value["gpu_type"] = types[0]
        places = (
            *("numa", "gpu_numa", "reserved_cores", "cores_per_gpu", "cores_per_gpu_required"),
            *("memory_usable", "gpu"),
        )
        return value, [f"nodes.{name}.{key}" for key in places if node is not None and getattr(node, key) is not None]
    value = {}
    if node.gpus is None:
        value["gpus"] = kind.gpu_count
    if node.cores is None:
        value |= {"cores": max(1, kind.cores), "threads_per_core": kind.threads}
    elif threads_matter and node.threads_per_core != kind.threads:
        value["threads_per_core"] = kind.threads
    if kind.memory_mib and node.memory_usable and parse_memory_mib(node.memory_usable) > kind.memory_mib:
        value["memory_usable"] = f"{kind.memory_mib}M"
    if kind.memory_mib and node.memory_mib is None:
        value["memory_mib"] = kind.memory_mib
    return value, []


def _counts_threads(profile: Profile, cluster: ClusterFacts, names: Mapping[Signature, str]) -> bool | None:
    """Return whether a CPU is a thread here, where the profile does not say so; None: the profile holds."""
    kinds = [kind for kind in cluster.kinds if not profile.nodes or names[signature(kind)] in profile.nodes]
    said, counts = profile.request.cpus, any(kind.threads > 1 for kind in kinds)
    if not kinds or ONE_THREAD & set(profile.request.sbatch or ()):
        return None
    return counts if (said or "cores") != ("threads" if counts else "cores") else None


# ---------------------------------------------------------------- queues


def _partition(
    profile: Profile, cluster: ClusterFacts, partition: PartitionFacts, names: Mapping[Signature, str]
) -> dict[str, Any]:
    """Return what Slurm says of a partition, where the profile does not say it."""
    queue = profile.partitions.get(partition.name)
    said, is_new = queue or Queue(), queue is None
    value = {**_limits(cluster, partition, said), **_nodes_of(profile, cluster, partition, names)}
    if partition.is_default != said.default and not cluster.routes:
        value["default"] = partition.is_default
    preempted = how_preempted(cluster, partition)
    if preempted is not None and preempted != said.preempted:
        value["preempted"] = preempted
    taken = [name for name in said.qos if cluster.qos_named(name) is not None and _takes_qos(partition, name)]
    if cluster.qos and taken != [*said.qos]:
        value["qos"] = taken
    if is_new or (partition.is_exclusive and said.sharing != "exclusive"):
        value["sharing"] = "exclusive" if partition.is_exclusive else "shared"
    return value


def _takes_qos(partition: PartitionFacts, name: str) -> bool:
    return (partition.qos is None or name in partition.qos) and name not in partition.qos_denied


def _limits(cluster: ClusterFacts, partition: PartitionFacts, said: Queue) -> dict[str, Any]:
    value: dict[str, Any] = {}
    own_qos, longest_s = cluster.qos_named(partition.own_qos or ""), partition.time_max_s
    # What a site writes of a partition may be the limit of its QOS.
    of_qos_s = own_qos.limits.get("maxwall") if own_qos else None
    if longest_s and known_walltime_s(said.time_max) not in {longest_s, min(longest_s, of_qos_s or longest_s)}:
        value["time_max"] = format_walltime(longest_s)
    if partition.time_default_s and partition.time_default_s != known_walltime_s(said.time_default):
        value["time_default"] = format_walltime(partition.time_default_s)
    if partition.nodes_max and partition.nodes_max != said.nodes_max:
        value["nodes_max"] = partition.nodes_max
    # One node at least is what every partition wants.
    if partition.nodes_min > 1 and partition.nodes_min != said.nodes_min:
        value["nodes_min"] = partition.nodes_min
    return value


def _nodes_of(
    profile: Profile, cluster: ClusterFacts, partition: PartitionFacts, names: Mapping[Signature, str]
) -> dict[str, Any]:
    queue, value = profile.partitions.get(partition.name), dict[str, Any]()
    kinds = cluster.kinds_of(partition.name)
    if partition.nodes and queue is None:
        value["nodes"] = partition.nodes
    if not kinds:
        return value
    gpus = max(kind.gpu_count for kind in kinds)
    if queue is None or (queue.gpus is not None and queue.gpus != gpus):
        value["gpus"] = gpus
    own_kinds = {names[signature(kind)] for kind in kinds}
    if len(own_kinds) == 1 and not _has_kind(profile, queue, kinds):
        value["node"] = own_kinds.pop()
    return value


def _has_kind(profile: Profile, queue: Queue | None, kinds: Sequence[KindFacts]) -> bool:
    """Return whether the profile's kind of node of a partition is one that it has here, or the profile names none."""
    if queue is None:
        return False
    return queue.node is None or any(
        _is_alike(profile, profile.nodes[name], kind) for name in (queue.node, *queue.other_nodes) for kind in kinds
    )


def _qos(profile: Profile, cluster: ClusterFacts, qos: QosLimit) -> dict[str, Any]:
    said, value = profile.qos.get(qos.name, Queue()), dict[str, Any]()
    preempted = how_preempted_by_qos(cluster, qos.name)
    if preempted is not None and preempted != said.preempted:
        value["preempted"] = preempted
    longest_s = qos.limits.get("maxwall")
    if longest_s and longest_s != known_walltime_s(said.time_max):
        value["time_max"] = format_walltime(longest_s)
    for field, limit in (("nodes_max", qos.limits.get("maxtres:node")), ("nodes_min", qos.limits.get("mintres:node"))):
        if limit and limit != getattr(said, field):
            value[field] = limit
    return value


def _memory(profile: Profile, cluster: ClusterFacts) -> dict[str, Any]:
    """Return the memory that a job asks for unasked, where no node has as much as the profile says."""
    nodes = [kind for kind in cluster.kinds if kind.gpu_count] or list(cluster.kinds)
    largest = max((kind.memory_mib for kind in nodes), default=0)
    memory, value = profile.memory, dict[str, Any]()
    said_mib = parse_memory_mib(memory.default_per_cpu) if memory.default_per_cpu else None
    if cluster.memory_per_cpu_mib and said_mib != cluster.memory_per_cpu_mib:
        value["default_per_cpu"] = f"{cluster.memory_per_cpu_mib}M"
    if largest and memory.mem and parse_memory_mib(memory.mem) > largest:
        value["mem"] = f"{largest}M"
    shares = [kind.memory_mib // kind.gpu_count for kind in nodes if kind.gpu_count]
    if any(shares) and memory.mem_per_gpu and parse_memory_mib(memory.mem_per_gpu) > max(shares):
        value["mem_per_gpu"] = f"{max(shares)}M"
    return value


# ---------------------------------------------------------------- what becomes of a preempted job


def how_preempted(cluster: ClusterFacts, partition: PartitionFacts) -> Preempted | None:
    """Return how a job of this partition makes room for another; None: it does not."""
    if "qos" in cluster.preempt_type:
        return how_preempted_by_qos(cluster, partition.own_qos or "")
    if "partition" not in cluster.preempt_type or not _has_rival(cluster, partition):
        return None
    return _in_mode(partition.preempt_mode)


def how_preempted_by_qos(cluster: ClusterFacts, name: str) -> Preempted | None:
    """Return how a job of this QOS makes room for one of another QOS; None: it does not."""
    qos = cluster.qos_named(name)
    if "qos" not in cluster.preempt_type or qos is None or not any(name in other.preempts for other in cluster.qos):
        return None
    return _in_mode(qos.preempt_mode.upper() if qos.preempt_mode not in {"", "cluster"} else cluster.preempt_mode)


def _in_mode(mode: str) -> Preempted | None:
    if "REQUEUE" in mode:
        return "requeue"
    if "CANCEL" in mode:
        return "cancel"
    return "suspend" if "SUSPEND" in mode else None


def _has_rival(cluster: ClusterFacts, partition: PartitionFacts) -> bool:
    """Return whether a partition of a higher tier has nodes like those of this one."""
    own = {signature(kind) for kind in cluster.kinds_of(partition.name)}
    higher = [other for other in cluster.partitions if other.priority_tier > partition.priority_tier]
    if not own:
        return bool(higher)
    return any(signature(kind) in own for other in higher for kind in cluster.kinds_of(other.name))


# ---------------------------------------------------------------- disagreements


def is_counted_otherwise(profile: Profile, path: Sequence[object], value: Any) -> bool:
    """Return whether Slurm's number for a node may be that of the profile, counted without what jobs do not get."""
    node = profile.nodes.get(str(path[1])) if path[0] == "nodes" else None
    if node is None:
        return False
    if path[-1] == "cores":
        return value in _core_counts(node)
    if path[-1] == "threads_per_core":
        return profile.request.cpus != "threads"
    usable = node.memory_usable
    return path[-1] == "memory_mib" and usable is not None and value >= parse_memory_mib(usable)


def leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value in the tables of a layer with its path: beside these, it has only the list `without`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        elif path:
            yield (*path, key), value
