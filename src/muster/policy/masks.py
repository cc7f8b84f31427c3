"""CPU masks from a node's tables of cores, NUMA domains and GPUs: computed, never pasted. Pure.

The rule: a GPU's cores are those of its NUMA domain and of the domains beside it that have no GPU, shared evenly, in
order, among the GPUs of that domain; the
cores that the site keeps for itself are then removed. It gives the published masks of every machine it was
compared with (tests/policy/test_masks.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from muster.sites.schema import NodeKind, Profile


def threads_counted(profile: Profile, node: NodeKind) -> int:
    """Return how many CPUs Slurm counts for one core there: hardware threads, or the core alone."""
    return (node.threads_per_core or 1) if profile.request.cpus == "threads" else 1


def core_list(text: str) -> tuple[int, ...]:
    """Return the cores of a list such as 0-5,48-53; none of an empty one."""
    cores: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        cores += range(int(low), int(high or low) + 1)
    return tuple(cores)


def spell_cores(cores: Iterable[int]) -> str:
    """Return the shortest list of these cores: 0-5,48."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def mask_of(cores: Iterable[int]) -> str:
    """Return the mask of these cores as srun reads it."""
    return f"{sum(1 << core for core in set(cores)):#x}"


def gpu_cores(node: NodeKind, *, threads: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """Return the cores of each logical GPU, `threads` hardware threads of each; None where the tables are not known."""
    if node.numa is None or node.gpu_numa is None or not node.gpus or node.cores is None:
        return None
    reserved = set(core_list(node.reserved_cores or ""))
    core_lists = []
    for gpu in range(node.gpus):
        domain = node.gpu_numa[gpu]
        cores = _cores_around(node.numa, set(node.gpu_numa), domain)
        mates = [mate for mate in range(node.gpus) if node.gpu_numa[mate] == domain]
        share = len(cores) // len(mates)
        start = mates.index(gpu) * share
        own_cores = [core for core in cores[start : start + share] if core not in reserved]
        # The second hardware thread of core c is c + cores on every machine of these tables.
        core_lists.append(tuple(core + node.cores * thread for thread in range(threads) for core in own_cores))
    return tuple(core_lists)


def _cores_around(numa: Sequence[str], with_gpu: set[int], domain: int) -> tuple[int, ...]:
    """Return the cores of a GPU's domain, and of the domains beside it that have no GPU: none stays idle."""
    width = len(numa) // len(with_gpu)
    block = range(domain // width * width, domain // width * width + width)
    if len(numa) % len(with_gpu) or len(with_gpu & set(block)) > 1:
        return core_list(numa[domain])
    return tuple(core for domain in block for core in core_list(numa[domain]))


class Bound(msgspec.Struct, frozen=True):
    """How the ranks of a node are bound, and why; `flags` empty: they are not."""

    flags: tuple[str, ...]
    reason: str
    cores: tuple[tuple[int, ...], ...] = ()
    """The cores of each local rank, where they are known."""


def bind_ranks(profile: Profile, node: NodeKind, *, ranks: int, whole_node: bool) -> Bound:
    """Return the srun flags that bind local rank i to the cores nearest to its GPU, or none and the reason for it."""
    kind = profile.binding.kind
    if kind in {None, "none"}:
        return Bound((), "the site binds well enough by itself, or publishes no tables")
    if kind == "closest":
        return Bound(("--gpu-bind=closest",), "the site's own rule")
    if profile.binding.needs_whole_node and not whole_node:
        return Bound((), "part of a node: which cores and GPUs it will be is not known, so no mask would be right")
    tables = gpu_cores(node, threads=threads_counted(profile, node))
    if tables is None:
        return Bound((), "the cores nearest to each GPU are not published")
    if ranks != node.gpus:
        return Bound((), f"the masks are for one rank on each of the {node.gpus} GPUs, but there are {ranks} ranks")
    cores = tuple(tables[gpu] for gpu in (profile.devices.order or range(len(tables))))
    if kind == "map":
        return Bound(("--cpu-bind=map_cpu:" + ",".join(str(own_cores[0]) for own_cores in cores),), _WHY, cores)
    return Bound(("--cpu-bind=mask_cpu:" + ",".join(mask_of(own_cores) for own_cores in cores),), _WHY, cores)


_WHY = "each rank on the cores nearest to its GPU, without those that the site keeps for itself"
