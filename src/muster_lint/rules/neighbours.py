"""Rules on what a job does to the other jobs of its nodes, and to whoever reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work

_HEAD = (
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=8\n#SBATCH --time=01:00:00\nset -e\n"
)
_STEP = "srun --kill-on-bad-exit=1 ./train\n"


@rule(
    "memory-of-whole-node",
    Severity.SLOW,
    "all memory of a node for some of its GPUs",
    why="--mem=0 takes the whole memory of the node: no other job fits beside this one, and the GPUs that it did not ask for idle.",
    instead="Give the memory of your share: --mem=64G, or --mem-per-gpu. For the whole node add --exclusive.",
    source=sources.SBATCH,
    bad=_HEAD.replace("#SBATCH --time", "#SBATCH --mem=0\n#SBATCH --time") + _STEP,
    good=_HEAD.replace("#SBATCH --time", "#SBATCH --mem=64G\n#SBATCH --time") + _STEP,
)
def find_whole_memories(job: BatchScript) -> Iterator[Hit]:
    """Yield --mem=0 in a job of one to three GPUs of a node."""
    memory, gpus = job.header.get("mem"), job.gpus_per_node or 0
    if (
        memory is None
        or not re.fullmatch(r"0+[KMGT]?B?", memory.value or "")
        or has_whole_nodes(job)
        or (job.nodes or 1) > 1
    ):
        return
    if 0 < gpus < _MOST_NODES_HAVE and any(is_work(job, each) for each in job.launches):
        message = f"the job takes all memory of a node, and {gpus} GPU{'s' * (gpus > 1)} of it"
        yield Hit(memory.place, message, unknown="how many GPUs the node has, and whether jobs share it")


_MOST_NODES_HAVE = 4
