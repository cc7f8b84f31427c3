"""What the allocation around this process has, by the variables that Slurm set in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.units import whole_number

# No cluster has more nodes: a variable that names more is damaged, and the list would take all memory.
_MOST_NODES = 1 << 20


class Granted(msgspec.Struct, frozen=True):
    """An allocation. None, or an empty list: no variable says it."""

    job: str
    node_list: str
    node_count: int | None
    part_count: int
    """More than one: it is heterogeneous, and the variables are those of its first part."""

    asked_tasks: int | None
    """The sum of the tasks that was asked for (salloc -n 4); None in a step, whose variables are its own."""

    asked_tasks_per_node: int | None
    tasks_per_node: str
    """As Slurm writes it: 4(x2),3."""

    tasks_of_nodes: tuple[int, ...]
    cpus_of_nodes: tuple[int, ...]
    cpus_per_task: int | None
    is_node: bool
    """Whether this process runs on a node of it, and is not a shell of salloc on a login host."""

    gpus_on_node: int | None
    asked_gpus_per_node: int | None
    asked_gpus: int | None


def job_around(environment: Mapping[str, str]) -> str | None:
    """Return the id of the job that this process was started in, by salloc, sbatch or srun; None: in none."""
    job = environment.get("SLURM_JOB_ID")
    # A heterogeneous job's shell of salloc has a list of nodes for each part only.
    has_nodes = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_HET_SIZE")
    return job if job and has_nodes else None


def read_granted(environment: Mapping[str, str]) -> Granted:
    """Return what the variables of an allocation say that it has."""

    def count(name: str) -> int | None:
        """Return the number of a variable, also of one with a type before it (a100:4)."""
        return whole_number(environment.get(name, "").rpartition(":")[2]) or None

    tasks_per_node = environment.get("SLURM_TASKS_PER_NODE", "")
    return Granted(
        job=environment.get("SLURM_JOB_ID", ""),
        node_list=environment.get("SLURM_JOB_NODELIST", ""),
        node_count=count("SLURM_JOB_NUM_NODES"),
        part_count=count("SLURM_HET_SIZE") or 1,
        asked_tasks=None if environment.get("SLURM_STEP_ID") else count("SLURM_NTASKS"),
        asked_tasks_per_node=count("SLURM_NTASKS_PER_NODE"),
        tasks_per_node=tasks_per_node,
        tasks_of_nodes=_of_nodes(tasks_per_node),
        cpus_of_nodes=_of_nodes(environment.get("SLURM_JOB_CPUS_PER_NODE", "")),
        cpus_per_task=count("SLURM_CPUS_PER_TASK"),
        is_node=bool(environment.get("SLURMD_NODENAME")),
        gpus_on_node=count("SLURM_GPUS_ON_NODE"),
        asked_gpus_per_node=count("SLURM_GPUS_PER_NODE"),
        asked_gpus=count("SLURM_GPUS"),
    )


def _of_nodes(text: str) -> tuple[int, ...]:
    """Return the number of every node of Slurm's "4(x2),3"."""
    numbers: list[int] = []
    for item in text.split(","):
        number, _, times = item.partition("(x")
        parsed_number = whole_number(number)
        if parsed_number is not None:
            numbers += [parsed_number] * min(whole_number(times.rstrip(")")) or 1, _MOST_NODES)
    return tuple(numbers)
