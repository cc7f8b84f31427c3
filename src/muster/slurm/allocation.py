"""Words for salloc, and for steps of srun that run Muster's own text on nodes. Nothing here starts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.model.plan import Directive
from muster.slurm.flags import ONLY_OF_SBATCH
from muster.slurm.question import Question


def hold_nodes(directives: Iterable[Directive], *command: str, quiet: bool = False) -> list[str]:
    """Return the words of a salloc that asks for what the header of a script asks for, and then runs `command`."""
    flags = [
        f"--{directive.name}" if directive.value is None else f"--{directive.name}={directive.value}"
        for directive in directives
        # B: is a signal to the script.
        if directive.name not in ONLY_OF_SBATCH and not f"{directive.name}={directive.value}".startswith("signal=B:")
    ]
    return ["salloc", *(["--quiet"] if quiet else []), *flags, *command]


def ask_new_nodes(nodes: int, flags: Sequence[str], script: str) -> Question[str]:
    """Ask new nodes, in a job of one minute with one task on each: what `script`, of sh, prints there."""
    place = ["--nodes=1", "--ntasks=1"] if nodes == 1 else [f"--nodes={nodes}", "--ntasks-per-node=1"]
    return Question(("srun", *place, "--time=1", "--quiet", *flags, "sh", "-c", script), str)


def ask_nodes_of(count: str, script: str) -> Question[str]:
    """Ask the nodes of the job around this process, one task on each: what `script`, of sh, prints there."""
    words = ("srun", "--overlap", f"--nodes={count}", f"--ntasks={count}", "--mpi=none", "--quiet", "--input=none")
    return Question((*words, "sh", "-c", script), str)


def step_of_job(job: str, nodes: Sequence[int]) -> list[str]:
    """Return the words of a step in a running job, one task on each node, that takes nothing from its ranks.

    A heterogeneous job has several numbers of nodes, one for each part.
    """
    words = ["srun", f"--jobid={job}"]
    for number, count in enumerate(nodes):
        words += [":"] * (number > 0) + [f"--het-group={number}"] * (len(nodes) > 1)
        words += [f"--nodes={count}", f"--ntasks={count}", *_ASIDE]
    return words


# A step that takes nothing from the ranks.
_ASIDE = (
    *("--overlap", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none"),
    *("--input=none", "--label", "--quiet", "--export=NONE", "--chdir=/"),
)


def cancel_softly(job: str) -> list[str]:
    """Return the words that ask the steps of a job to end, and leave its script alone."""
    return ["scancel", "--quiet", "--signal=TERM", job]
