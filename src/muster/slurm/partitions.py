"""sinfo as text: the words that ask for the partitions, and what it answers. 22.05 to 26.05."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby

import msgspec

from muster.older import zip_equal
from muster.slurm.question import Question
from muster.units import known_walltime_s

_END = "\x1f"
# One line per partition and state of its nodes.
_COLUMNS = {
    "name": "%P",
    "availability": "%a",
    "time_limit": "%l",
    "default_time": "%L",
    "job_size": "%s",
    "nodes": "%D",
    "cpus": "%C",
    "cpus_per_node": "%c",
    "memory_mib": "%m",
    "gres": "%G",
    "state": "%T",
}
# What sinfo may append to a node's state: not responding, powered down, in maintenance, …
_STATE_FLAGS = "*~#!%$@^-"


class Partition(msgspec.Struct, frozen=True):
    """One partition: what a job may ask of it, and what is free."""

    name: str
    is_default: bool
    is_up: bool
    time_limit_s: int | None
    """None: unlimited."""

    default_time_s: int | None
    least_nodes: int
    most_nodes: int | None
    """Of one job; None: no limit."""

    nodes: int
    idle_nodes: int
    idle_cpus: int
    cpus_per_node: int
    """Of the smallest node."""

    memory_mib_per_node: int
    gres: tuple[str, ...]
    nodes_by_state: tuple[tuple[str, int], ...]


def count_waiting(stdout: str) -> dict[str, int]:
    """Return waiting jobs by partition; a job that names several counts in each."""
    names = [name for line in stdout.split() for name in line.split(",")]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def parse_sinfo(stdout: str) -> tuple[Partition, ...]:
    """Return the partitions, in sinfo's order; other lines (a site's greeting) are ignored."""
    lines = [line.split(_END) for line in stdout.splitlines()]
    rows = [dict(zip_equal(_COLUMNS, line)) for line in lines if len(line) == len(_COLUMNS)]
    return tuple(_partition(name, list(group)) for name, group in groupby(rows, key=lambda row: row["name"]))


def _partition(name: str, rows: list[dict[str, str]]) -> Partition:
    first = rows[0]
    fewest, _, largest = first["job_size"].partition("-")
    states = [(row["state"].rstrip(_STATE_FLAGS), _number(row["nodes"]), row) for row in rows]
    totals: Counter[str] = Counter()
    for state, count, _ in states:
        totals[state] += count
    return Partition(
        name=name.removesuffix("*"),
        is_default=name.endswith("*"),
        is_up=first["availability"] == "up",
        time_limit_s=known_walltime_s(first["time_limit"]),
        default_time_s=known_walltime_s(first["default_time"]),
        least_nodes=_number(fewest),
        most_nodes=_number(largest or fewest) or None,
        nodes=sum(count for _, count, _ in states),
        idle_nodes=sum(count for state, count, row in states if state == "idle" and _answers(row["state"])),
        idle_cpus=sum(_idle_cpus(row["cpus"]) for _, _, row in states),
        cpus_per_node=min(_number(row["cpus_per_node"]) for row in rows),
        memory_mib_per_node=min(_number(row["memory_mib"]) for row in rows),
        gres=tuple(dict.fromkeys(row["gres"] for row in rows if row["gres"] != "(null)")),
        nodes_by_state=tuple(totals.items()),
    )


def _answers(state: str) -> bool:
    """Return whether nodes in this state can be given to a job at once.

    "idle*" do not answer, "idle$" are in maintenance.
    """
    return not state.endswith(("*", "$", "^"))


def _idle_cpus(text: str) -> int:
    """Return the idle CPUs of allocated/idle/other/total."""
    parts = text.split("/")
    return _number(parts[1]) if len(parts) == 4 else 0


def _number(text: str) -> int:
    """Return a whole number, 4K, or the least of "128+"; 0 for "infinite" and what is none."""
    match = re.match(r"([0-9]{1,15})([KM]?)", text, re.ASCII)
    return int(match[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[match[2]] if match else 0


# All partitions, in one request; and those that the waiting jobs name, in one more.
PARTITIONS = Question(("sinfo", "--all", "--noheader", f"--format={_END.join(_COLUMNS.values())}"), parse_sinfo)
WAITING = Question(("squeue", "--all", "--noheader", "--states=PENDING", "--format=%P"), count_waiting)
