"""The queue that follows from a request, and what a queue allows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from muster.policy.masks import threads_counted
from muster.sites.schema import NodeKind, Profile, Queue
from muster.sites.when import Situation, holds, say_when
from muster.units import parse_walltime_s


class Choice(msgspec.Struct, frozen=True):
    """The queue a job goes to, and why."""

    partition: str | None
    qos: str | None
    reason: str
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    """`partition` and `qos`, where the profile chose them → its key that did."""

    gone: str | None = None
    """The partition of the rule that holds, where this cluster does not have it."""


def choose_queue(
    profile: Profile,
    job: Situation,
    *,
    partition: str | None = None,
    qos: str | None = None,
    gpu_type: str | None = None,
    there: frozenset[str] | None = None,
) -> Choice:
    """Return the queue that the user named, else of the first rule that holds.

    A partition brings its QOS, and a QOS the partition that is for it, where the profile says so.
    A rule whose partition has no GPU of the type that the user named does not hold.
    `there`: the partitions that the cluster has, where it was asked. A rule that names another one decides nothing.
    """
    if partition is not None:
        return _with_qos(profile, Choice(partition, qos, "as asked"))
    if qos is not None:
        return _of_qos(profile, qos, gpu_type, there)
    for number, rule in enumerate(profile.queue_rules):
        if holds(rule.when, job) and may_have_type(profile, rule.partition, gpu_type):
            if there is not None and rule.partition is not None and rule.partition not in there:
                return Choice(None, rule.qos, f"{rule.partition} of the profile is not there", gone=rule.partition)
            condition = say_when(rule.when)
            reason = rule.reason if not condition else f"{rule.reason} ({condition})"
            key = f"queue_rules.{number}"
            return _with_qos(profile, Choice(rule.partition, rule.qos, reason, {"partition": key, "qos": key}))
    return _of_type(profile, gpu_type, there)


def default_partition(profile: Profile) -> str | None:
    """Return the partition that a job gets which names none, by the profile; None: the profile does not say."""
    return next((name for name, queue in profile.partitions.items() if queue.default), None)


def _with_qos(profile: Profile, choice: Choice) -> Choice:
    """Return the choice with the QOS of its partition, where it has none; without a partition, of the default one."""
    name = choice.partition or default_partition(profile) or ""
    queue = profile.partitions.get(name, Queue())
    if choice.qos is not None or not queue.qos:
        return choice
    return replace(choice, qos=queue.qos[0], keys={**choice.keys, "qos": f"partitions.{name}.qos"})


def _of_qos(profile: Profile, qos: str, gpu_type: str | None, there: frozenset[str] | None) -> Choice:
    """Return the first open partition for this QOS; the default one, where it is for it, is not named."""
    taking = [
        name
        for name, queue in profile.partitions.items()
        if qos in queue.qos and _may_take(profile, name, gpu_type, there)
    ]
    if not taking or any(profile.partitions[name].default for name in taking):
        return Choice(None, qos, "as asked")
    return Choice(taking[0], qos, f"the partition for the QOS {qos}", {"partition": f"partitions.{taking[0]}.qos"})


def _of_type(profile: Profile, gpu_type: str | None, there: frozenset[str] | None) -> Choice:
    """Return the first open partition whose nodes name this type of GPU; without a type the site's own default."""
    default = _with_qos(profile, Choice(None, None, "no rule of the profile fits: the site's own default holds"))
    own_default = default_partition(profile)
    if gpu_type is None or (own_default is not None and may_have_type(profile, own_default, gpu_type)):
        return default
    named = {name: gpu_types_of(profile, queue) for name, queue in profile.partitions.items()}
    fitting = (name for name, types in named.items() if gpu_type in types and _may_take(profile, name, gpu_type, there))
    partition = next(fitting, None)
    if partition is None:
        return default
    reason, key = f"its nodes have GPUs of type {gpu_type}", f"partitions.{partition}.node"
    return _with_qos(profile, Choice(partition, None, reason, {"partition": key}))


def _may_take(profile: Profile, partition: str, gpu_type: str | None, there: frozenset[str] | None) -> bool:
    is_there = there is None or partition in there
    return profile.partitions[partition].open and is_there and may_have_type(profile, partition, gpu_type)


def kinds_in(queue: Queue) -> tuple[str, ...]:
    """Return the kinds of node of a queue, the one that a job gets unasked first."""
    return (*filter(None, [queue.node]), *queue.other_nodes)


def gpu_types_of(profile: Profile, queue: Queue) -> tuple[str, ...]:
    """Return the types of GPU that the nodes of a queue have; none where a kind of them does not name its type."""
    nodes = [profile.nodes[kind] for kind in kinds_in(queue)]
    types = [node.gpu_type for node in nodes if node.gpus != 0]
    return tuple(gpu_type for gpu_type in types if gpu_type is not None) if None not in types else ()


def may_have_type(profile: Profile, partition: str | None, gpu_type: str | None) -> bool:
    """Return whether nodes of a partition may have GPUs of this type: they name it, or the profile does not say."""
    queue = profile.partitions.get(partition or "")
    if gpu_type is None or queue is None:
        return True
    types = gpu_types_of(profile, queue)
    nodes = [profile.nodes[kind] for kind in kinds_in(queue)]
    has_gpus = queue.gpus != 0 and (not nodes or any(node.gpus != 0 for node in nodes))
    return gpu_type in types if types else has_gpus


def kind_of(
    profile: Profile,
    *,
    partition: str | None = None,
    qos: str | None = None,
    constraint: str | None = None,
    account: str | None = None,
    gpu_type: str | None = None,
    gpus: int | None = None,
    cpus: int = 0,
) -> str | None:
    """Return the kind of node that a job gets: its queue's, its constraint's, its account's, else the site's first.

    A job without GPUs (`gpus`: 0) gets the first kind without any; of the kinds of its queue a job gets the first that
    has as many `gpus` and `cpus` on a node.

    None: the request names a queue, a feature or a type of GPU that the profile does not list.
    """
    if profile.request.constraint and unlisted_features(profile, constraint):
        return None
    of_type = _kinds_of_type(profile, gpu_type)
    for queue in (profile.qos.get(qos or ""), profile.partitions.get(partition or "")):
        if queue is not None and (queue.node is not None or queue.gpus == 0):
            selected = kind_of_constraint(profile, constraint)
            own_kinds = [kind for kind in kinds_in(queue) if gpu_type is None or kind in of_type]
            if selected in own_kinds:
                return selected
            if gpu_type is not None:
                return next(iter(own_kinds or of_type), None)
            fitting = {kind: _how_well(profile, profile.nodes[kind], gpus or 0, cpus) for kind in own_kinds}
            return max(own_kinds, key=lambda kind: fitting[kind], default=queue.node)
    if gpu_type is not None:
        return next(iter(of_type), None)
    selected = kind_of_constraint(profile, constraint)
    if selected or _is_unlisted(profile.partitions, partition) or _is_unlisted(profile.qos, qos):
        return selected
    cpu_kind = next((kind for kind, node in profile.nodes.items() if gpus == node.gpus == 0), None)
    return kind_of_account(profile, account) or cpu_kind or next(iter(profile.nodes), None)


def _how_well(profile: Profile, node: NodeKind, gpus: int, cpus: int) -> tuple[int, bool]:
    has_cpus = node.cores is None or cpus <= node.cores * threads_counted(profile, node)
    return min(node.gpus or 0, gpus), has_cpus


def _is_unlisted(queues: Mapping[str, Queue], name: str | None) -> bool:
    """Return whether the profile does not list this queue, but lists others with their kinds of node."""
    return name is not None and name not in queues and any(queue.node is not None for queue in queues.values())


def _kinds_of_type(profile: Profile, gpu_type: str | None) -> list[str]:
    """Return the kinds of node with GPUs of this type: those that name it; else the one called so, or all."""
    named_types = {
        kind: node.gpu_type if node.gpu_type is not None else profile.request.gpu_type
        for kind, node in profile.nodes.items()
        if node.gpus != 0
    }
    listed_types = profile.request.gres_names
    if not any(named_types.values()) and gpu_type in named_types:
        return [gpu_type]
    if not any(named_types.values()) and (not listed_types or f"gpu:{gpu_type}" in listed_types):
        return list(named_types)
    return [kind for kind, named_type in named_types.items() if named_type == gpu_type]


def is_of_another_kind(profile: Profile, kind: str | None, gpu_type: str | None) -> bool:
    """Return whether the profile says that nodes of this kind have no GPUs of this type; False: that is not known."""
    listed, default = profile.request.gres_names or (), profile.request.gpu_type
    types = {
        name: node.gpu_type or default or (name if f"gpu:{name}" in listed else None)
        for name, node in profile.nodes.items()
    }
    own_type = types.get(kind or "")
    is_known = own_type is not None or gpu_type in {*types, *types.values()}
    return is_known and gpu_type not in {None, kind, own_type}


def unlisted_features(profile: Profile, constraint: str | None) -> list[str]:
    """Return the features of a constraint that the profile does not list; none where the profile lists no feature."""
    listed = {word for feature in profile.request.features or () for word in feature.split("&")}
    words = re.findall(r"[\w.+-]+", constraint or "") if listed else ()
    return [word for word in words if not word.isdigit() and word not in listed]


def kind_of_constraint(profile: Profile, constraint: str | None) -> str | None:
    """Return the kind of node that a constraint selects; None where it selects none."""
    wanted_features = set((constraint or "").split("&"))
    selects = (profile.request.constraint or {}).items()
    return next((kind for kind, words in selects if set(words.split("&")) <= wanted_features), None)


def kind_of_account(profile: Profile, account: str | None) -> str | None:
    """Return the kind of node that an account pays for by its suffix; None where it has none."""
    suffixes = (profile.request.account_suffix or {}).items()
    return next((kind for kind, suffix in suffixes if (account or "").endswith(suffix)), None)


def longest_s(queue: Queue, nodes: int, gpus: int = 0) -> int | None:
    """Return the longest walltime of a job of this size, in seconds; None: no limit is known.

    `gpus`: those of all nodes together.
    """
    steps = (
        step for step in queue.time_by_nodes if nodes <= (step.nodes_max or nodes) and gpus <= (step.gpus_max or gpus)
    )
    of_size = next((step.time_max for step in steps), None)
    limits = (parse_walltime_s(limit) for limit in (of_size, queue.time_max) if limit)
    return min((limit for limit in limits if limit is not None), default=None)
