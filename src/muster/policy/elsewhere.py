"""Where a request that is refused would be taken: other partitions and QOS of the profile, as options to type. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from muster.errors import Refusal
from muster.policy.cluster import refusals_here
from muster.policy.queues import choose_queue, default_partition
from muster.policy.rules import Ask, node_of, refusals
from muster.sites.schema import Profile, Queue
from muster.sites.site import Site
from muster.sites.when import Situation

_MOST_NAMED = 3
"""Queues that one hint names."""

_OF_THE_QUEUE = frozenset(
    {
        *("nodes-max", "nodes-min", "time-max", "node-minutes", "total-gpus-max", "total-gpus-min", "gpus-per-node"),
        *("no-gpus", "gpus-max", "cores-max", "mem-max", "closed-queue", "gpu-type", "queue-qos"),
    }
)
"""The rules that another queue may not have."""

_IN_EACH_QUEUE = frozenset({"forbidden-flag", "launcher", "renamed-module", "image-gone", "mem-zero"})
"""The rules that hold in each queue."""

_LATER = ("debug", "test", "interactive")
"""Purposes of queues that are named after all others."""


def name_others(site: Site, ask: Ask, here: tuple[str | None, str | None], broken: list[Refusal]) -> list[Refusal]:
    """Return the refusals with the options that lead to a queue which takes the request, before their own hints.

    `ask`: what was typed, no more; `here`: the partition and the QOS of the job that was refused.
    """
    if not any(refusal.rule in _OF_THE_QUEUE for refusal in broken):
        return broken
    ways = _ways(site, ask, *here, [refusal.rule for refusal in broken])[:_MOST_NAMED]
    return [
        refusal._replace(hint=", or ".join(dict.fromkeys([*ways, refusal.hint])))
        if refusal.rule in _OF_THE_QUEUE
        else refusal
        for refusal in broken
    ]


def _ways(site: Site, ask: Ask, partition: str | None, qos: str | None, rules: Collection[str]) -> list[str]:
    """Return the options of each queue that takes the request, those whose jobs are preempted last.

    `rules`: what the job was refused by. A queue for trials is left out where its limit is not known.
    """
    profile = site.profile
    if any(rule.flag == "partition" and rule.value is None for rule in profile.request.forbidden):
        return []
    default = default_partition(profile)
    taking: dict[str | None, tuple[str, Ask]] = {}
    for words, other in _candidates(site, ask, partition or default, qos):
        if other.partition not in taking and _takes(site, other):
            taking[other.partition] = (words, other)
    in_order = sorted(taking.values(), key=lambda way: _rank(profile, way[1]))
    unsaid = {other.partition: [] if site.cluster else _unsaid(profile, other, rules) for _, other in in_order}
    return [
        words + _remark(profile, other, unsaid[other.partition])
        for words, other in in_order
        if not (unsaid[other.partition] and _is_for_trials(profile, other))
    ]


def _candidates(site: Site, ask: Ask, partition: str | None, qos: str | None) -> Iterator[tuple[str, Ask]]:
    """Yield the options of each other queue with the request that they make: the other QOS of the partition first."""
    profile, default = site.profile, default_partition(site.profile)
    for name in profile.partitions.get(partition or "", Queue()).qos or tuple(profile.qos):
        if name != qos:
            alone = choose_queue(profile, Situation(), qos=name, gpu_type=ask.gpu_type).partition
            is_led_here = ask.partition is not None or partition is None or (alone or default) == partition
            words = f"-q {name}" if is_led_here else f"-p {partition} -q {name}"
            yield words, replace(ask, partition=partition, qos=name)
    forbidden = {rule.value for rule in profile.request.forbidden if rule.flag == "partition"}
    for name, queue in profile.partitions.items():
        if name in forbidden | {partition} or (site.partitions_there is not None and name not in site.partitions_there):
            continue
        is_taken = ask.qos is not None and (not queue.qos or ask.qos in queue.qos)
        for number, other_qos in enumerate((ask.qos,) if is_taken else queue.qos or (None,)):
            is_unnamed = is_taken or (ask.qos is None and number == 0)
            words = f"-p {name}" if is_unnamed else f"-p {name} -q {other_qos}"
            yield words, replace(ask, partition=name, qos=other_qos)


def _takes(site: Site, ask: Ask) -> bool:
    """Return whether nothing that is known speaks against this queue, and its nodes are known to suit the GPUs."""
    _, node = node_of(site.profile, ask)
    if node.gpus is None or bool(node.gpus) != bool(ask.gpus_per_node):
        return False
    broken = refusals(site.profile, ask, is_counted=site.cluster is not None)
    if any(not (refusal.rule in _IN_EACH_QUEUE or refusal.rule.startswith("required-")) for refusal in broken):
        return False
    return site.cluster is None or not any(refusals_here(site.cluster, ask))


def _queues_of(profile: Profile, ask: Ask) -> list[Queue]:
    named = (profile.partitions.get(ask.partition or ""), profile.qos.get(ask.qos or ""))
    return [queue for queue in named if queue is not None]


def _unsaid(profile: Profile, ask: Ask, rules: Collection[str]) -> list[str]:
    """Return what the profile does not say of a queue, of what the job was refused for."""
    queues, (_, node) = _queues_of(profile, ask), node_of(profile, ask)
    said = {
        "time-max": ("its limit of time", any(queue.time_max or queue.time_by_nodes for queue in queues)),
        "nodes-max": ("how many nodes it has", node.nodes or any(queue.nodes_max or queue.nodes for queue in queues)),
        "cores-max": ("how many cores its nodes have", node.cores),
        "mem-max": ("how much memory its nodes have", node.memory_mib or node.memory_usable),
    }
    return [said[rule][0] for rule in dict.fromkeys(rules) if rule in said and not said[rule][1]]


def _is_for_trials(profile: Profile, ask: Ask) -> bool:
    return any(queue.purpose in _LATER for queue in _queues_of(profile, ask))


def _rank(profile: Profile, ask: Ask) -> tuple[bool, bool]:
    return any(queue.preempted for queue in _queues_of(profile, ask)), _is_for_trials(profile, ask)


def _remark(profile: Profile, ask: Ask, unsaid: Collection[str]) -> str:
    queues = _queues_of(profile, ask)
    if any(queue.preempted for queue in queues):
        return " (jobs there may be preempted)"
    needed = next((queue.needs for queue in queues if queue.needs), None)
    if needed:
        return f" (for projects that have {needed})"
    return f" (Muster does not know {' and '.join(unsaid)})" if unsaid else ""
