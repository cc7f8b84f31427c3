"""What Slurm counts over all parts of a heterogeneous job, each of which is a job of its own to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.errors import Refusal
from muster.policy.cluster import partition_of
from muster.policy.limits import SlurmBound, amounts_of, bounds_of, spelled
from muster.policy.rules import Ask
from muster.slurm.cluster_facts import ClusterFacts

_UNITS = {"node": "nodes", "cpu": "CPUs", "mem": "MiB of memory", "job": "jobs"}


def broken_together(cluster: ClusterFacts, asks: Sequence[Ask]) -> Iterator[tuple[SlurmBound, Refusal]]:
    """Yield each number that the parts of a job go beyond together, and none of them alone."""
    counted: dict[SlurmBound, list[int]] = {}
    for ask in asks:
        partition = partition_of(cluster, ask)
        if partition is None:
            continue
        amounts = amounts_of(cluster, partition, ask)
        for bound in set(bounds_of(cluster, partition, ask)):
            if bound.is_of_several and bound.counts in amounts:
                counted.setdefault(bound, []).append(amounts[bound.counts][0])
    for bound, parts in counted.items():
        if max(parts) <= bound.number < sum(parts):
            total = f"{' + '.join(map(str, parts))} = {sum(parts)} {_UNITS.get(bound.counts, 'GPUs')}"
            message = f"{total} in the parts of the job, but {bound.words.format(spelled(bound))}"
            hint = "fewer or smaller roles; or the same nodes for all, which are one part"
            yield bound, Refusal(bound.rule, message, hint, bound.key, bound.key.partition(".")[2], bound.number)
