"""Conditions of a profile's entries: whether they hold for a job, and their wording. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.sites.schema import Bind, Profile, SiteCommand, SiteVariable, When
from muster.units import parse_walltime_s, whole_number

OFFLINE = "offline"
"""The workload that every site has whose nodes have no way out: the variables of `network.offline`."""


class Situation(msgspec.Struct, frozen=True):
    """What is known of a job when a condition is asked."""

    nodes: int = 1
    gpus_per_node: int = 0
    whole_node: bool = False
    launcher: str = "srun"
    time_s: int | None = None
    """None: not asked for."""

    stack: str | None = None
    """The software stack of an image, by the profile's name for it."""

    container: bool = False
    gpu_kind: str | None = None
    """The kind of node, by the profile's name for it."""

    nccl: str | None = None
    trial: bool = False
    workloads: frozenset[str] = msgspec.field(default_factory=frozenset)


def holds(condition: When | None, job: Situation) -> bool:
    """Return whether every condition that is given holds."""
    if condition is None:
        return True
    checks: Iterable[tuple[object, bool]] = (
        (condition.nodes_min, job.nodes >= (condition.nodes_min or 0)),
        (condition.nodes_max, job.nodes <= (condition.nodes_max or 0)),
        (condition.gpus_min, job.gpus_per_node >= (condition.gpus_min or 0)),
        (condition.gpus_max, job.gpus_per_node <= (condition.gpus_max or 0)),
        (condition.all_gpus_max, job.nodes * job.gpus_per_node <= (condition.all_gpus_max or 0)),
        (condition.whole_node, job.whole_node == condition.whole_node),
        (condition.time_max, _within(job.time_s, condition.time_max)),
        (condition.launchers, job.launcher in (condition.launchers or ())),
        (condition.stacks, job.stack in (condition.stacks or ())),
        (condition.container, job.container == condition.container),
        (condition.gpu_kinds, job.gpu_kind in (condition.gpu_kinds or ())),
        (condition.nccl_below, job.nccl is not None and _version(job.nccl) < _version(condition.nccl_below or "0")),
        (condition.trial, job.trial == condition.trial),
        (condition.workload, condition.workload in job.workloads),
    )
    return all(is_met for limit, is_met in checks if limit is not None)


def applies(entry: SiteVariable | SiteCommand | Bind, job: Situation) -> bool:
    """Return whether an entry is part of this job.

    A kept one where its condition holds, an offered one where asked for.
    """
    if entry.verdict == "offered":
        return entry.when is not None and entry.when.workload is not None and holds(entry.when, job)
    return entry.verdict == "kept" and holds(entry.when, job)


def workloads_of(profile: Profile) -> tuple[str, ...]:
    """Return the names under which the profile offers something that only some programs need."""
    return tuple(dict.fromkeys(_workloads(profile)))


def _workloads(profile: Profile) -> Iterator[str]:
    if profile.network.offline:
        yield OFFLINE
    binds = (bind for container in profile.containers.values() for bind in container.binds)
    entries: tuple[SiteVariable | SiteCommand | Bind, ...] = (*profile.environment, *profile.commands, *binds)
    for entry in entries:
        if entry.verdict != "dropped" and entry.when is not None and entry.when.workload is not None:
            yield entry.when.workload


def _within(time_s: int | None, limit: str | None) -> bool:
    longest_s = parse_walltime_s(limit) if limit else None
    return longest_s is None or (time_s is not None and time_s <= longest_s)


def _version(text: str) -> tuple[int, ...]:
    return tuple(number for part in text.split(".") if (number := whole_number(part)) is not None)


def say_when(condition: When | None) -> str:
    """Return the condition in words; empty if there is none."""
    if condition is None:
        return ""
    conditions = (
        (condition.nodes_min, f"on {condition.nodes_min} nodes or more"),
        (
            condition.nodes_max,
            "on one node" if condition.nodes_max == 1 else f"on {condition.nodes_max} nodes or fewer",
        ),
        (condition.gpus_min, f"with {condition.gpus_min} GPU{'s' * (condition.gpus_min != 1)} or more a node"),
        (
            condition.gpus_max,
            f"with {condition.gpus_max} or fewer GPUs a node" if condition.gpus_max else "without GPUs",
        ),
        (condition.all_gpus_max, f"with {condition.all_gpus_max} GPUs or fewer on all nodes together"),
        (condition.whole_node, "on whole nodes" if condition.whole_node else "on parts of nodes"),
        (condition.time_max, f"for {condition.time_max} or less"),
        (condition.launchers, "under " + " or ".join(condition.launchers or ())),
        (condition.stacks, "with " + " or ".join(condition.stacks or ())),
        (condition.container, "in a container" if condition.container else "without a container"),
        (condition.gpu_kinds, "on nodes of kind " + " or ".join(condition.gpu_kinds or ())),
        (condition.nccl_below, f"with NCCL older than {condition.nccl_below}"),
        (condition.trial, "with --trial" if condition.trial else "without --trial"),
        (condition.workload, f"with --workload {condition.workload}"),
    )
    return ", ".join(words for limit, words in conditions if limit is not None)
