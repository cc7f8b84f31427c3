"""muster queues: the partitions with their limits, and what is free in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from muster.cli.asked_jobs import scheduler
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json, print_table
from muster.units import format_walltime

if TYPE_CHECKING:
    from muster.slurm.partitions import Partition

_COLUMNS = ("partition", "state", "time limit", "nodes per job", "idle", "nodes", "idle CPUs", "each node", "waiting")


def main(words: Words) -> int:
    """List the partitions: two requests."""
    partitions, waiting = scheduler().partitions()
    if words.json:
        print_json([_as_json(partition, waiting.get(partition.name, 0)) for partition in partitions])
        return 0
    print_table("partitions", _COLUMNS, [_row(partition, waiting.get(partition.name, 0)) for partition in partitions])
    return 0


def _as_json(partition: Partition, waiting: int) -> dict[str, Any]:
    return {**asdict(partition), "nodes_by_state": dict(partition.nodes_by_state), "waiting_jobs": waiting}


def _row(partition: Partition, waiting: int) -> tuple[object, ...]:
    limit = "none" if partition.time_limit_s is None else format_walltime(partition.time_limit_s)
    most_nodes = partition.most_nodes or "any"
    gres = f", {' '.join(partition.gres)}" if partition.gres else ""
    return (
        partition.name + "*" * partition.is_default,
        "up" if partition.is_up else "down",
        limit,
        f"{partition.least_nodes} to {most_nodes}" if most_nodes != partition.least_nodes else str(most_nodes),
        partition.idle_nodes,
        partition.nodes,
        partition.idle_cpus,
        f"{partition.cpus_per_node} CPUs, {partition.memory_mib_per_node // 1024} GiB{gres}",
        waiting,
    )


COMMAND = CommandLine(
    name="queues",
    start=main,
    summary="""\
List the partitions of this cluster: limits, sizes, what is free, and how many jobs wait. A * marks the default.
`muster why JOB` tells when a waiting job is expected to start.""",
    options=(JSON,),
)
