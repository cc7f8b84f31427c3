"""Why Slurm takes a job and does not start it: a limit that it waits for, nodes that are out or reserved. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from muster.policy.cluster import partition_of
from muster.policy.given import gpus_of
from muster.policy.limits import broken_bounds
from muster.policy.rules import Ask
from muster.slurm.cluster_facts import ClusterFacts, KindFacts, PartitionFacts

_KEPT_S = 3600
"""So long an answer of Slurm's is kept: the job may be queued as much later."""


def why_not_now(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[str]:
    """Yield what keeps this job in the queue as the cluster is."""
    if partition.takes_jobs and not partition.is_up:
        yield f"the job waits: {partition.name} is down"
    for bound, refusal in broken_bounds(cluster, partition, ask):
        if bound.is_waited_for:
            yield f"the job waits: {refusal.message}"
    kinds = [kind for kind in cluster.kinds_of(partition.name) if gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node]
    count, out = sum(kind.nodes for kind in kinds), sum(kind.out for kind in kinds)
    yield from _reserved(cluster, partition, ask, kinds, count - out)
    if count - out < ask.nodes <= count:
        there = f"{count} nodes of {partition.name} that have what it asks for"
        yield f"the job waits: {out} of the {there} are drained or down"


def why_not_anywhere(cluster: ClusterFacts, ask: Ask) -> list[str]:
    """Return what keeps this job in the queue in each partition that may be its own: a limit of its account, or QOS."""
    names = (ask.partition or "").split(",")
    possible = [each for each in cluster.partitions if not ask.partition or each.name in names]
    reasons = [list(why_not_now(cluster, each, ask)) for each in possible]
    return [why for why in reasons[0] if all(why in others for others in reasons)] if reasons else []


def rules_waited_for(cluster: ClusterFacts, ask: Ask) -> set[str]:
    """Return the rules for which a partition that may be this job's lets it wait: a profile does not refuse them."""
    partition = partition_of(cluster, ask)
    possible = cluster.partitions if partition is None else (partition,)
    broken = (pair for each in possible for pair in broken_bounds(cluster, each, ask))
    return {bound.rule for bound, _ in broken if bound.is_waited_for}


def _reserved(
    cluster: ClusterFacts, partition: PartitionFacts, ask: Ask, kinds: Sequence[KindFacts], usable: int
) -> Iterator[str]:
    """Yield the reservations that begin before this job would end, and leave too few nodes."""
    longest_s = ask.time_s or partition.time_default_s or partition.time_max_s
    for reservation in cluster.reservations if "reservation" not in ask.flags else ():
        taken = sum(kind.reserved.get(reservation.name, 0) for kind in kinds)
        certainty = _how_sure(cluster.asked, reservation.start, longest_s)
        if usable - taken < ask.nodes <= usable and certainty:
            words = f"{taken} of the {usable} nodes of {partition.name} are reserved ({reservation.name})"
            yield f"{certainty}: {words} from {reservation.start} to {reservation.end}"


def _how_sure(asked: str, start: str, longest_s: int | None) -> str:
    """Return whether a job waits for a reservation: surely, only if it is queued later; empty: no, or not known."""
    try:
        left_s = (datetime.fromisoformat(start) - datetime.fromisoformat(asked)).total_seconds()
    except ValueError:
        return ""
    if longest_s is None or left_s < longest_s:
        return "the job waits"
    return "the job waits, unless it starts soon" if left_s < longest_s + _KEPT_S else ""
