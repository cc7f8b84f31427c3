"""Conditions of a profile's entries: whether they hold for a job, and their wording. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.sites.schema import Bind, Command, Profile, Variable, When
from muster.units import parse_walltime_s, whole_number

__all__ = ["OFFLINE", "Situation", "applies", "holds", "say_when", "workloads_of"]

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


def holds(when: When | None, job: Situation) -> bool:
    """Return whether every condition that is given holds."""
    if when is None:
        return True
    checks: Iterable[tuple[object, bool]] = (
        (when.nodes_min, job.nodes >= (when.nodes_min or 0)),
        (when.nodes_max, job.nodes <= (when.nodes_max or 0)),
        (when.gpus_min, job.gpus_per_node >= (when.gpus_min or 0)),
        (when.gpus_max, job.gpus_per_node <= (when.gpus_max or 0)),
        (when.whole_node, job.whole_node == when.whole_node),
        (when.time_max, _within(job.time_s, when.time_max)),
        (when.launchers, job.launcher in (when.launchers or ())),
        (when.stacks, job.stack in (when.stacks or ())),
        (when.container, job.container == when.container),
        (when.gpu_kinds, job.gpu_kind in (when.gpu_kinds or ())),
        (when.nccl_below, job.nccl is not None and _version(job.nccl) < _version(when.nccl_below or "0")),
        (when.trial, job.trial == when.trial),
        (when.workload, when.workload in job.workloads),
    )
    return all(held for given, held in checks if given is not None)


def applies(entry: Variable | Command | Bind, job: Situation) -> bool:
    """Whether an entry is part of this job: a kept one where its condition holds, an offered one where asked for."""
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
    entries: tuple[Variable | Command | Bind, ...] = (*profile.environment, *profile.commands, *binds)
    for entry in entries:
        if entry.verdict != "dropped" and entry.when is not None and entry.when.workload is not None:
            yield entry.when.workload


def _within(time_s: int | None, limit: str | None) -> bool:
    most = parse_walltime_s(limit) if limit else None
    return most is None or (time_s is not None and time_s <= most)


def _version(text: str) -> tuple[int, ...]:
    return tuple(number for part in text.split(".") if (number := whole_number(part)) is not None)


def say_when(when: When | None) -> str:
    """Return the condition in words; empty if there is none."""
    if when is None:
        return ""
    said = (
        (when.nodes_min, f"on {when.nodes_min} nodes or more"),
        (when.nodes_max, "on one node" if when.nodes_max == 1 else f"on {when.nodes_max} nodes or fewer"),
        (when.gpus_min, f"with {when.gpus_min} GPUs or more a node"),
        (when.gpus_max, f"with {when.gpus_max} GPUs or fewer a node" if when.gpus_max else "without GPUs"),
        (when.whole_node, "on whole nodes" if when.whole_node else "on parts of nodes"),
        (when.time_max, f"for {when.time_max} or less"),
        (when.launchers, "under " + " or ".join(when.launchers or ())),
        (when.stacks, "with " + " or ".join(when.stacks or ())),
        (when.container, "in a container" if when.container else "without a container"),
        (when.gpu_kinds, "on nodes of kind " + " or ".join(when.gpu_kinds or ())),
        (when.nccl_below, f"with NCCL older than {when.nccl_below}"),
        (when.trial, "with --trial" if when.trial else "without --trial"),
        (when.workload, f"with --workload {when.workload}"),
    )
    return ", ".join(words for given, words in said if given is not None)
