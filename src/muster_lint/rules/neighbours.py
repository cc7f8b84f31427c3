"""Rules on what a job does to the other jobs of its nodes, and to whoever reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work, text_of

_HEAD = (
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=8\n#SBATCH --time=01:00:00\nset -e\n"
)
_STEP = "srun --kill-on-bad-exit=1 ./train\n"


@rule(
    "service-for-everyone",
    Severity.FRAGILE,
    "a service without a password",
    why="Whoever reaches the node runs commands as you: other users of the cluster do, and at some sites the whole network.",
    instead="Let it listen at 127.0.0.1 and reach it through ssh -L; or leave its token on.",
    source="ray-project/ray doc/source/ray-security/index.md (Ray expects to run in a safe network)",
    bad=_HEAD + "ray start --head --port=$((20000 + SLURM_JOB_ID % 9999)) --dashboard-host=0.0.0.0\npython drive.py\n",
    good=_HEAD
    + "ray start --head --port=$((20000 + SLURM_JOB_ID % 9999)) --dashboard-host=127.0.0.1\npython drive.py\n",
)
def find_open_services(job: BatchScript) -> Iterator[Hit]:
    """Yield the first service that listens at all addresses and runs what it is sent; notebook-open says it of notebooks."""
    for each in job.commands if job.directives else ():
        text = text_of(each)
        found = _OPEN.search(text)
        is_off = each.in_substitution or each.program in {"echo", "printf", "cat"}
        if found and not is_off:
            yield Hit(each.place, f"{found[1] or found[2]} lets everyone in who reaches the node")
            return


_OPEN = re.compile(
    r"\b(ray start)\b.*--dashboard-host[= ]0\.0\.0\.0|\b(code-server)\b(?=.*0\.0\.0\.0)(?=.*--auth[= ]none).*"
)


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
