"""What Slurm gives a job that does not say it: the kind of node, the account, the QOS. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.policy.rules import Ask
from muster.slurm.cluster_facts import Association, ClusterFacts, KindFacts, PartitionFacts

_SLICE = r"(?i)\d+g\.\d+gb|\d+g$"
"""How the type of a part of a GPU is named: a100_1g.5gb, h100_3g.40gb, 1g.10gb."""


def is_slice(gpu_type: str) -> bool:
    """Return whether a type of GPU is a part of one (MIG)."""
    return bool(re.search(_SLICE, gpu_type))


def gpus_of(kind: KindFacts, gpu_type: str | None) -> int:
    """Return how many GPUs of a type a node has; of no type in particular, whole GPUs before slices."""
    if gpu_type is not None:
        return sum(count for name, count in kind.gpus if name == gpu_type)
    return sum(count for name, count in kind.gpus if not is_slice(name)) or kind.gpu_count


def kind_for(cluster: ClusterFacts, partition: str | None, ask: Ask) -> KindFacts | None:
    """Return the kind of node that this job gets: of those that have what it asks for, the one with most nodes.

    A job without GPUs gets one without, where the partition has both.
    """
    name = partition or (cluster.default_partition.name if cluster.default_partition else "")
    kinds = list(cluster.kinds_of(name.partition(",")[0]))
    if partition is None and not any(gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node for kind in kinds):
        kinds = list(cluster.kinds)
    features = words_of_constraint(ask.constraint)
    if features:
        kinds = [kind for kind in kinds if features <= set(kind.features)] or kinds
    fitting = [kind for kind in kinds if gpus_of(kind, ask.gpu_type) >= max(1, ask.gpus_per_node)]
    if not ask.gpus_per_node and ask.gpu_type is None:
        fitting = [kind for kind in kinds if not kind.gpu_count] or kinds
    if not fitting:
        # Of the kind that comes nearest, a refusal then says how much it has.
        return max(kinds, key=lambda kind: (gpus_of(kind, ask.gpu_type), kind.gpu_count, kind.nodes), default=None)
    return max(fitting, key=lambda kind: (kind.nodes, gpus_of(kind, ask.gpu_type)))


class MemoryUnasked(NamedTuple):
    """The memory that a job gets on a node where it asks for none: so much for each unit that it has."""

    mib: int
    units: int
    unit: str
    """`GPU`, `CPU` or `node`."""

    @property
    def words(self) -> str:
        return f"{self.mib} MiB a {self.unit}, where nothing is asked for"


def memory_unasked(
    cluster: ClusterFacts, partition: PartitionFacts | None, cpus: int, gpus: int
) -> MemoryUnasked | None:
    """Return what a job gets by the word of its partition, else of the cluster; None: not known, or all.

    Where memory is not given out, Slurm holds a node to the default of a node all the same.
    """
    for facts in filter(None, (partition, cluster)):
        per_gpu, per_cpu = (
            (facts.memory_per_gpu_mib, facts.memory_per_cpu_mib) if cluster.shares_memory else (None, None)
        )
        for mib, count, unit in (
            (per_gpu, gpus, "GPU"),
            (per_cpu, cpus, "CPU"),
            (facts.memory_per_node_mib, 1, "node"),
        ):
            if mib and count:
                return MemoryUnasked(mib, count, unit)
    return None


def words_of_constraint(constraint: str | None) -> set[str]:
    """Return the features that every node must have; of a list with alternatives, none is known to be needed."""
    text = constraint or ""
    return set(text.split("&")) if re.fullmatch(r"[\w.+:-]+(&[\w.+:-]+)*", text) else set()


def account_of(cluster: ClusterFacts, ask: Ask) -> str | None:
    """Return the account that pays: the one that was named, else this user's default."""
    if ask.account is not None:
        return ask.account
    return next((association.account for association in cluster.associations or () if association.is_default), None)


def associations_of(cluster: ClusterFacts, ask: Ask) -> list[Association]:
    """Return this user's associations with the account that pays; Slurm reads its name in small letters."""
    account = (account_of(cluster, ask) or "").lower()
    return [association for association in cluster.associations or () if association.account.lower() == account]


def qos_of(cluster: ClusterFacts, ask: Ask) -> str | None:
    """Return the QOS of the job: the one that was named, else the default of its account."""
    if ask.qos is not None:
        return ask.qos
    mine = associations_of(cluster, ask)
    named = next((association.default_qos for association in mine if association.default_qos), None)
    allowed = list(dict.fromkeys(name for association in mine for name in association.qos))
    if named is not None or not allowed:
        return named
    # Slurm takes the only one, or normal.
    return allowed[0] if len(allowed) == 1 else next((name for name in allowed if name == "normal"), None)
