"""The queue of a job, and what follows from it: when it runs again, and the memory that has to be asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from muster.job.request import Request
from muster.model.plan import Directive, Reason, Shape
from muster.plan.asked import Asked, gpu_type_asked
from muster.plan.site_values import node_kind, reason_for
from muster.policy.masks import threads_counted
from muster.policy.queues import Choice, choose_queue
from muster.sites.site import SAID_HERE, Site
from muster.sites.when import Situation
from muster.units import parse_memory_mib

if TYPE_CHECKING:
    from muster.slurm.cluster_facts import PartitionFacts

_REQUEUE = {
    "never": "no job of this site is run again",
    "always": "this site runs a job again whatever its header says",
}


def requeue_of(site: Site, request: Request, queue: Choice) -> tuple[str, Reason]:
    """Return when a job runs again: as the site has it, else where jobs of its queue make room for others."""
    requeue = site.profile.request.requeue
    reason = reason_for(site, "request.requeue", _REQUEUE.get(requeue, ""))
    if requeue != "asked":
        return requeue, reason
    partition, qos = queue.partition, queue.qos
    if site.cluster is not None:
        from muster.plan.live import queue_unasked

        default_partition, default_qos = queue_unasked(site.cluster, request)
        partition, qos = partition or default_partition, qos or default_qos
    for kind, name in (("partitions", partition), ("qos", qos)):
        known_queue = getattr(site.profile, kind).get(name or "")
        if known_queue is not None and known_queue.preempted == "requeue":
            text = f"jobs of {name} give their nodes to others, and wait again: --sbatch=--no-requeue ends them instead"
            return "preempted", reason_for(site, f"{kind}.{name}.preempted", text)
    return requeue, reason


def queue_of(asked: Asked, job: Situation) -> Choice:
    """Return the queue of the job; what a rule of the profile names has to be there, where Slurm says what there is."""
    request, profile, cluster = asked.request, asked.site.profile, asked.site.cluster
    gpu_type = gpu_type_asked(request)
    queue = choose_queue(
        profile, job, partition=request.partition, qos=request.qos, gpu_type=gpu_type, there=asked.site.partitions_there
    )
    if queue.gone is None or cluster is None:
        return queue
    from muster.plan.live import queue_in_place_of

    return queue_in_place_of(queue, asked, job, cluster)


def memory_of(site: Site, job: Situation, request: Request, shape: Shape) -> Iterator[Directive]:
    """Yield what has to be asked for: a whole node's where all of it is the job's, else a share for each GPU."""
    memory = site.profile.memory
    of_kind = site.profile.nodes[job.gpu_kind].mem_per_gpu if job.gpu_kind in site.profile.nodes else None
    share, key = (
        (of_kind, f"nodes.{job.gpu_kind}.mem_per_gpu") if of_kind else (memory.mem_per_gpu, "memory.mem_per_gpu")
    )
    if memory.policy == "explicit" and job.whole_node and memory.mem and not of_kind:
        reason = reason_for(site, "memory.mem", "memory has to be asked for here")
        yield _of_node(site, request, shape, parse_memory_mib(memory.mem), memory.mem, reason)
    elif memory.policy in {"explicit", "per-gpu"} and share and job.gpus_per_node:
        yield Directive("mem-per-gpu", share, reason_for(site, key, "a GPU's share"))
    elif memory.policy != "forbidden" and (memory.policy != "whole-node" or site.cluster is not None):
        yield from _instead_of_default(site, job, request, shape)


_LITTLE_MIB = 1024
"""A default for each CPU that is below this is meant to be overruled."""

_LITTLE_FOR_GPU_MIB = 4 * _LITTLE_MIB


class _Unasked(msgspec.Struct, frozen=True):
    """The memory that a job gets on a node where it asks for none."""

    mib: int
    least_mib: int
    """Less than this is too little for a program of this kind."""

    reason: Reason


def _instead_of_default(site: Site, job: Situation, request: Request, shape: Shape) -> Iterator[Directive]:
    """Yield a share of the node's memory where the default is too little for the job, or more than a node has."""
    _, node = node_kind(site, request)
    whole_mib = parse_memory_mib(node.memory_usable) if node.memory_usable else node.memory_mib
    unasked = _unasked(site, request.partition, shape, whole_mib or 0)
    if unasked is None or not whole_mib or not node.cores:
        return
    most_mib = min(whole_mib, _most_mib(site, request.partition) or whole_mib)
    if unasked.least_mib <= unasked.mib <= most_mib:
        return
    reason = unasked.reason
    if unasked.mib > most_mib:
        reason = replace(reason, text=f"a job gets {most_mib} MiB of a node at most, and {unasked.reason.text}")
    if job.whole_node:
        yield _of_node(site, request, shape, most_mib, f"{most_mib}M", reason)
    elif job.gpus_per_node and node.gpus:
        share_mib = min(whole_mib * job.gpus_per_node // node.gpus, most_mib)
        reason = replace(reason, text=f"the share of its GPUs: {reason.text}")
        yield _of_node(site, request, shape, share_mib, f"{share_mib}M", reason)
    else:
        share_mib = min(whole_mib // (node.cores * threads_counted(site.profile, node)), most_mib // cores_of(shape))
        yield Directive("mem-per-cpu", f"{share_mib}M", replace(reason, text=f"the share of a CPU: {reason.text}"))


def _of_node(site: Site, request: Request, shape: Shape, mib: int, text: str, reason: Reason) -> Directive:
    """Return what asks for so much memory of each node (0: all of it).

    Where a GPU brings memory unasked, --mem does not overrule that: Slurm then wants both, and refuses the job.
    """
    _, node = node_kind(site, request)
    gpus, mib = shape.gpus_per_node, mib or node.memory_mib or 0
    facts = (_partition_of(site, request.partition), site.cluster)
    if not gpus or not mib or not any(said is not None and said.memory_per_gpu_mib for said in facts):
        return Directive("mem", text, reason)
    text = f"{reason.text}; --mem would not replace what a GPU brings here"
    return Directive("mem-per-gpu", f"{mib // gpus}M", replace(reason, text=text))


def cores_of(shape: Shape) -> int:
    """Return the CPUs of one node that a launch has; Slurm gives one to a rank that asks for none."""
    return shape.ntasks_per_node * (shape.cpus_per_task or 1)


def _most_mib(site: Site, partition: str | None) -> int | None:
    """Return the most memory of a node that Slurm gives to one job, where there is a limit beside the node's own."""
    cluster = site.cluster
    named = _partition_of(site, partition)
    return None if cluster is None else (named and named.memory_per_node_max_mib) or cluster.memory_per_node_max_mib


def _partition_of(site: Site, name: str | None) -> PartitionFacts | None:
    cluster = site.cluster
    return None if cluster is None else cluster.partition(name) if name else cluster.default_partition


def _unasked(site: Site, partition: str | None, shape: Shape, whole_mib: int) -> _Unasked | None:
    """Return what a job gets unasked: by the word of its partition, else of the cluster; None: not known, or all."""
    cluster, cpus, gpus = site.cluster, cores_of(shape), shape.gpus_per_node
    if cluster is not None:
        from muster.policy.given import memory_unasked
        from muster.policy.limits import memory_of_largest

        unasked = memory_unasked(cluster, _partition_of(site, partition), cpus, gpus)
        if unasked is not None:
            least_mib = _LITTLE_FOR_GPU_MIB * gpus if unasked.unit == "GPU" else _LITTLE_MIB * cpus
            least_mib = least_mib if cluster.shares_memory else 0
            return _Unasked(unasked.mib * unasked.units, least_mib, Reason(unasked.words, SAID_HERE))
        there = _partition_of(site, partition)
        largest_mib = max(whole_mib, memory_of_largest(cluster, there) if there else 0)
        if (_most_mib(site, partition) or largest_mib) < largest_mib:
            text = f"Slurm asks for all of a node ({largest_mib} MiB) where nothing is asked for"
            return _Unasked(largest_mib, 0, Reason(text, SAID_HERE))
        if not cluster.shares_memory:
            return None
    default = site.profile.memory.default_per_cpu
    if not default:
        return None
    mib = parse_memory_mib(default)
    text = f"{mib} MiB a CPU, where nothing is asked for"
    return _Unasked(mib * cpus, _LITTLE_MIB * cpus, reason_for(site, "memory.default_per_cpu", text))
