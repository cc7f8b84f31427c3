"""What a cluster with switches or blocks makes of the flags about them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.errors import Refusal
from muster.policy.rules import Ask
from muster.slurm.cluster_facts import ClusterFacts


def topology_refusals(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield what a flag about blocks and switches asks in vain; from 25.05 on, partitions may have one each.

    From 26.05 on, a segment of more nodes than the job has is ignored.
    """
    segment, kind = ask.flags.get("segment") or "", cluster.topology.partition("/")[2]
    version = re.match(r"(\d+)\.(\d+)", cluster.version)
    release = (int(version[1]), int(version[2])) if version else None
    is_one = release is not None and release < (25, 5)
    is_ignored = (release is None or release >= (26, 5)) and segment.isdigit() and int(segment) > ask.nodes
    if segment and kind and kind != "block" and is_one:
        hint = "--sbatch=--switches=1 keeps a job under one switch" if kind == "tree" else "omit it"
        yield Refusal(
            "segment", f"--segment is for blocks, but this cluster has {cluster.topology}", hint, "partitions"
        )
    elif segment.isdigit() and int(segment) and ask.nodes % int(segment) and not is_ignored:
        nodes = max(ask.nodes // int(segment), 1) * int(segment)
        message = f"--segment={segment} does not divide {ask.nodes} nodes"
        yield Refusal("segment", message, f"-N {nodes}, or another --segment", "partitions")
    if "switches" in ask.flags and kind == "block" and is_one:
        message = "--switches has no effect on this cluster: it has topology/block"
        yield Refusal("switches", message, f"--sbatch=--segment={ask.nodes} keeps the job in one block", "partitions")
