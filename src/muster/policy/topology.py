"""What a cluster of blocks makes of the flag about them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.errors import Refusal
from muster.policy.rules import Ask
from muster.slurm.cluster_facts import ClusterFacts


def topology_refusals(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield a segment that does not divide the nodes of a job; Slurm ignores segments and switches elsewhere.

    From 26.05 on, a segment of more nodes than the job has is ignored.
    """
    segment = ask.flags.get("segment") or ""
    if cluster.topology != "topology/block" or not segment.isdigit() or not int(segment):
        return
    version = re.match(r"(\d+)\.(\d+)", cluster.version)
    is_ignored = (version is None or (int(version[1]), int(version[2])) >= (26, 5)) and int(segment) > ask.nodes
    if ask.nodes % int(segment) and not is_ignored:
        nodes = max(ask.nodes // int(segment), 1) * int(segment)
        message = f"--segment={segment} does not divide {ask.nodes} nodes"
        yield Refusal("segment", message, f"-N {nodes}, or another --segment", "partitions")
