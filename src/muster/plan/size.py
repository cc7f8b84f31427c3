"""How large the launch is: what a node has, what the job has of it, and what one row has of that. Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.plan import Engine, Pack, Shape
from muster.plan.asked import Asked, gpus_asked
from muster.plan.shape import NodeShape, make_shape
from muster.plan.site_values import node_kind, queue_names
from muster.policy.masks import core_list, threads_counted
from muster.policy.queues import kinds_in
from muster.sites.site import Site
from muster.slurm.flags import gpus_in_gres


class Size(msgspec.Struct, frozen=True):
    """The numbers of a launch."""

    node: NodeShape
    shape: Shape
    """Of the job."""

    pack: Pack | None = None
    """How rows of a sweep share a node; None: they do not."""

    @property
    def of_run(self) -> Shape:
        """Return the shape of one run: a row of it, or the job."""
        return self.shape if self.pack is None else self.pack.shape


def make_size(asked: Asked, facts: Facts, launcher: Launcher) -> tuple[Asked, Size]:
    """Return the numbers, and what is asked for the whole job: where rows share a node, their sum."""
    if asked.engine is Engine.SLURM:
        node = node_shape(asked.site, asked.request)
        if asked.within:  # the allocation may have less than the node
            node = replace(node, cpus_without_gpus=None)
    else:
        node = NodeShape(gpus=facts.gpus, origin="this machine")
    pack = None
    if asked.request.sweep_per_node is not None:
        from muster.plan.pack import packed

        request, pack = packed(asked.request, node, launcher, asked.request.sweep_per_node)
        asked = replace(asked, request=request)
    try:
        shape = make_shape(asked.request, node, gpus_asked=gpus_in_gres(asked.request.gres))
    except RequestError as error:
        if asked.engine is not Engine.SLURM or not error.refusals:
            raise
        from muster.plan.live import ask_of
        from muster.policy.elsewhere import name_others

        here = queue_names(asked.site, asked.request)
        broken = name_others(asked.site, ask_of(asked.request), here, list(error.refusals))
        raise RequestError(error.message, "; ".join(each.hint for each in broken), refusals=broken) from None
    return asked, Size(node, shape, pack)


def node_shape(site: Site, request: Request) -> NodeShape:
    """Return what one node has, for the arithmetic."""
    name, node = node_kind(site, request)
    if name is None:
        return NodeShape()
    reserved = len(core_list(node.reserved_cores or ""))
    cores = None if node.cores is None else node.cores - reserved
    share = node.cores_per_gpu or (cores // node.gpus if cores and node.gpus else None)
    if not site.is_described and not gpus_asked(request):
        share = None
    counted = threads_counted(site.profile, node)
    partition, qos = queue_names(site, request)
    is_own = node.gpus == 0 and _has_node_alone(site, request, partition, qos)
    return NodeShape(
        gpus=node.gpus,
        cpus=None if cores is None else cores * (node.threads_per_core or 1),
        cpus_per_gpu=None if share is None else share * counted,
        cpus_without_gpus=cores * counted if cores and is_own else None,
        queue=partition or qos or "",
        origin=site.origin(f"nodes.{name}").words(),
        is_taken_whole=site.is_described,
    )


def _has_node_alone(site: Site, request: Request, partition: str | None, qos: str | None) -> bool:
    """Return whether each node that this queue may give the job is the job's alone, with the same number of cores."""
    if not site.is_described or (site.cluster is not None and partition not in (site.partitions_there or ())):
        return False
    profile = site.profile
    queues = [queue for queue in (profile.partitions.get(partition or ""), profile.qos.get(qos or "")) if queue]
    sharing = next((queue.sharing for queue in queues if queue.sharing), profile.request.sharing)
    if not request.exclusive and sharing != "exclusive":
        return False
    for queue in queues:
        kinds = [profile.nodes[name] for name in kinds_in(queue)]
        if len({(kind.cores, kind.threads_per_core) for kind in kinds}) > 1:
            return False
    if site.cluster is None:
        return True
    from muster.plan.live import ask_of
    from muster.policy.limits import gives_all_cpus

    return gives_all_cpus(site.cluster, replace(ask_of(request), partition=partition, qos=qos))
