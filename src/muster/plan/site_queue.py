"""The queue of a job, and what follows from it: when it runs again, and the memory that has to be asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from muster.errors import Refusal, refused
from muster.job.request import Request
from muster.model.plan import Directive, Reason
from muster.plan.live import ask_of
from muster.plan.site_values import node_kind, reason_for
from muster.policy.cluster import choose_partition, qos_of
from muster.policy.masks import threads_counted
from muster.policy.queues import Choice, choose_queue
from muster.sites.live import SAID_HERE
from muster.sites.site import Site
from muster.sites.when import Situation
from muster.slurm.flags import gpu_type_in_gres
from muster.units import parse_memory_mib

_REQUEUE = {
    "never": "no job of this site is run again",
    "always": "this site runs a job again whatever its header says",
}


def requeue_of(site: Site, request: Request, job: Situation) -> tuple[str, Reason]:
    """Return when a job runs again: as the site has it, else where jobs of its queue make room for others."""
    requeue = site.profile.request.requeue
    reason = reason_for(site, "request.requeue", _REQUEUE.get(requeue, ""))
    if requeue != "asked":
        return requeue, reason
    queue = queue_of(site, request, job)
    cluster = site.cluster
    partition = queue.partition or (cluster.default_partition.name if cluster and cluster.default_partition else None)
    qos = queue.qos or (qos_of(cluster, ask_of(request)) if cluster else None)
    for kind, name in (("partitions", partition), ("qos", qos)):
        known_queue = getattr(site.profile, kind).get(name or "")
        if known_queue is not None and known_queue.preempted == "requeue":
            text = f"jobs of {name} give their nodes to others, and wait again: --sbatch=--no-requeue ends them instead"
            return "preempted", reason_for(site, f"{kind}.{name}.preempted", text)
    return requeue, reason


def queue_of(site: Site, request: Request, job: Situation) -> Choice:
    """Return the queue of the job; what a rule of the profile names has to be there, where Slurm says what there is."""
    profile, cluster = site.profile, site.cluster
    gpu_type = request.gpu_type or gpu_type_in_gres(request.gres)
    if cluster is None:
        return choose_queue(profile, job, partition=request.partition, qos=request.qos, gpu_type=gpu_type)
    queue = choose_queue(
        profile, job, partition=request.partition, qos=request.qos, gpu_type=gpu_type, there=site.partitions_there
    )
    if queue.gone is None:
        return queue
    ask = replace(ask_of(request), nodes=job.nodes, gpus_per_node=job.gpus_per_node)
    open_partitions = tuple(each for each in cluster.partitions if profile.partitions[each.name].open)
    known = replace(cluster, partitions=open_partitions)
    chosen = choose_partition(known, ask, trial=request.trial, any_nodes=not job.gpus_per_node)
    if chosen.partition is None:
        message = f"{queue.reason}, and no other partition of this cluster takes this job"
        hint = "muster queues shows the partitions and their nodes"
        raise refused((Refusal("unknown-queue", message, hint, "partitions"), SAID_HERE))
    return replace(queue, partition=chosen.partition, reason=f"{chosen.reason}; {queue.reason}")


def memory_of(site: Site, job: Situation, request: Request, partition: str | None) -> Iterator[Directive]:
    """Yield what has to be asked for: a whole node's where all of it is the job's, else a share for each GPU."""
    memory = site.profile.memory
    of_kind = site.profile.nodes[job.gpu_kind].mem_per_gpu if job.gpu_kind in site.profile.nodes else None
    share, key = (
        (of_kind, f"nodes.{job.gpu_kind}.mem_per_gpu") if of_kind else (memory.mem_per_gpu, "memory.mem_per_gpu")
    )
    if memory.policy == "explicit" and job.whole_node and memory.mem and not of_kind:
        yield Directive("mem", memory.mem, reason_for(site, "memory.mem", "memory has to be asked for here"))
    elif memory.policy in {"explicit", "per-gpu"} and share and job.gpus_per_node:
        yield Directive("mem-per-gpu", share, reason_for(site, key, "a GPU's share"))
    elif memory.policy != "forbidden" and (memory.policy != "whole-node" or site.cluster is not None):
        yield from _instead_of_little(site, job, request, partition)


_LITTLE_MIB = 1024
"""A default for each CPU that is below this is meant to be overruled: torch alone takes more."""


def _instead_of_little(site: Site, job: Situation, request: Request, partition: str | None) -> Iterator[Directive]:
    """Yield a share of the node's memory where the default is too little for a program of this kind."""
    default_mib = _default_per_cpu_mib(site, partition)
    _, node = node_kind(site, replace(request, partition=partition))
    whole_mib = parse_memory_mib(node.memory_usable) if node.memory_usable else node.memory_mib
    if default_mib is None or default_mib >= _LITTLE_MIB or not whole_mib or not node.cores:
        return
    text = f"{default_mib} MiB a CPU, where nothing is asked for"
    own_reason = reason_for(site, "memory.default_per_cpu", text)
    if job.whole_node:
        yield Directive("mem", f"{whole_mib}M", own_reason)
    elif job.gpus_per_node and node.gpus:
        share_mib = whole_mib * job.gpus_per_node // node.gpus
        yield Directive("mem", f"{share_mib}M", replace(own_reason, text=f"the share of its GPUs: {text}"))
    else:
        share_mib = whole_mib // (node.cores * threads_counted(site.profile, node))
        yield Directive("mem-per-cpu", f"{share_mib}M", replace(own_reason, text=f"the share of a CPU: {text}"))


def _default_per_cpu_mib(site: Site, partition: str | None) -> int | None:
    """Return the memory that a CPU brings with it: what the partition says, else the site; None: not known, or all."""
    cluster = site.cluster
    if cluster is not None and not cluster.shares_memory:
        return None
    named = cluster.partition(partition) if cluster and partition else cluster.default_partition if cluster else None
    if named is not None and (named.memory_per_cpu_mib or named.memory_per_node_mib):
        return named.memory_per_cpu_mib
    default = site.profile.memory.default_per_cpu
    return parse_memory_mib(default) if default else None
