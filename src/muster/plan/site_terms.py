"""Site profile + situation of this job → the terms of the launch, each with its source. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.job.request import Request
from muster.plan.model import Directive, Flag, Prelude, Reason, Shape, Variable
from muster.plan.shape import NodeShape
from muster.plan.terms import DEFAULT_PORTS, Ports, Terms
from muster.plan.words import template
from muster.sites.load import Site
from muster.sites.masks import bind_ranks, core_list, threads_counted
from muster.sites.queues import choose_queue
from muster.sites.schema import Node
from muster.sites.when import Situation, holds
from muster.units import parse_walltime_s

__all__ = ["node_kind", "node_shape", "reason_for", "situation_of", "terms_of"]


def reason_for(site: Site, key: str, text: str) -> Reason:
    """The reason of a value that the profile gives: its own words first, with document and date."""
    origin = site.origin(key)
    source = None if origin.source is None else f"{origin.source.title}, {origin.source.at}"
    where = f"site {site.name}: {key}" if origin.layer == "bundled" else origin.words()
    return Reason(origin.reason or text, where, source, str(origin.checked) if origin.checked else None)


def node_kind(site: Site, request: Request) -> tuple[str | None, Node]:
    """The kind of node that this request gets: the partition's, else the site's first."""
    profile = site.profile
    queue = profile.partitions.get(request.partition or "")
    name = queue.node if queue is not None and queue.node else next(iter(profile.nodes), None)
    return name, profile.nodes[name] if name is not None and name in profile.nodes else Node()


def node_shape(site: Site, request: Request) -> NodeShape:
    """What one node has, for the arithmetic."""
    name, node = node_kind(site, request)
    if name is None:
        return NodeShape()
    reserved = len(core_list(node.reserved_cores)) if node.reserved_cores else 0
    cores = None if node.cores is None else node.cores - reserved
    share = node.cores_per_gpu or (cores // node.gpus if cores and node.gpus else None)
    threads = node.threads_per_core or 1
    return NodeShape(
        gpus=node.gpus,
        cpus=None if cores is None else cores * threads,
        cpus_per_gpu=None if share is None else share * threads_counted(site.profile, node),
        origin=site.origin(f"nodes.{name}").words(),
    )


def situation_of(site: Site, request: Request, shape: Shape, launcher: str) -> Situation:
    """What the profile's conditions ask of a job."""
    name, node = node_kind(site, request)
    whole = request.exclusive or (node.gpus is not None and 0 < node.gpus <= shape.gpus_per_node)
    return Situation(
        nodes=shape.nodes,
        gpus_per_node=shape.gpus_per_node,
        whole_node=whole or site.profile.request.sharing == "exclusive",
        launcher=launcher,
        time_s=parse_walltime_s(request.time) if request.time else None,
        stack=_stack(site, request),
        container=request.image is not None,
        gpu_kind=name,
    )


def _stack(site: Site, request: Request) -> str | None:
    """The software stack of the image, where the site keeps it and says so."""
    name = request.image or ""
    image = site.profile.images.get(name.removeprefix("site:")) if name.startswith("site:") else None
    return image.stack if image else None


def terms_of(site: Site, request: Request, shape: Shape, job: Situation) -> Terms:
    """Everything that the site lays down for this job."""
    profile = site.profile
    asked, launch, meeting = profile.request, profile.launch, profile.rendezvous
    whole_node = asked.gpus == "whole-node"
    return Terms(
        site=site.name,
        gpu_form="none" if whole_node else ("gres" if asked.gpus == "gres" else "gpus-per-node"),
        gpu_form_reason=reason_for(site, "request.gpus", "the form in which this site wants GPUs asked for"),
        gpu_type=asked.gpu_type,
        directives=tuple(_directives(site, request, job)),
        step_flags=tuple(_step_flags(site, shape, job, request)),
        mpi=launch.mpi if job.launcher.startswith("mpirun") else None,
        mpirun_flags=tuple(
            Flag(word, reason_for(site, "launch.mpirun", "how this site wants ranks mapped and bound"))
            for word in launch.mpirun or ()
        ),
        address_rule=_address_rule(site),
        host_suffix=(meeting.suffix or "") if meeting.host == "suffix" else "",
        address_reason=reason_for(site, "rendezvous.host", "rank 0 runs on the first host of the step"),
        ports=Ports(
            meeting.port_low or DEFAULT_PORTS[0],
            meeting.port_high or DEFAULT_PORTS[1],
            bool(meeting.reserved_ports),
            reason_for(site, "rendezvous.port_low", "below the range from which the kernel hands out ports"),
        ),
        visibility=profile.devices.visibility or "all",
        variables=tuple(_variables(site, job)),
        prelude=tuple(_prelude(site, job)),
        node_prologue=_node_prologue(site, job),
    )


def _address_rule(site: Site) -> tuple[str, ...]:
    meeting = site.profile.rendezvous
    if meeting.host == "interface" and meeting.interface:
        return ("interface", meeting.interface)
    return ("numeric",) if meeting.host == "numeric" else ()


def _directives(site: Site, request: Request, job: Situation) -> Iterator[Directive]:
    profile = site.profile
    chosen = choose_queue(profile, job, partition=request.partition, qos=request.qos)
    if chosen.rule is not None:
        why = reason_for(site, f"queue_rules.{chosen.rule}", chosen.reason)
        for name, value in (("partition", chosen.partition), ("qos", chosen.qos)):
            if value is not None:
                yield Directive(name, value, why)
    for flag in profile.request.sbatch or ():
        name, equals, value = flag.lstrip("-").partition("=")
        yield Directive(name, value if equals else None, reason_for(site, "request.sbatch", "every job of this site"))
    memory = profile.memory
    if request.mem is None and memory.policy == "explicit" and job.whole_node and memory.mem:
        yield Directive("mem", memory.mem, reason_for(site, "memory.mem", "memory has to be asked for here"))
    elif request.mem is None and memory.policy == "per-gpu" and memory.mem_per_gpu and job.gpus_per_node:
        yield Directive("mem-per-gpu", memory.mem_per_gpu, reason_for(site, "memory.mem_per_gpu", "a GPU's share"))


def _step_flags(site: Site, shape: Shape, job: Situation, request: Request) -> Iterator[Flag]:
    for flag in site.profile.launch.srun or ():
        yield Flag(flag, reason_for(site, "launch.srun", "every step of this site"))
    if job.launcher == "srun":
        _, node = node_kind(site, request)
        bound = bind_ranks(site.profile, node, ranks=shape.ntasks_per_node, whole_node=job.whole_node)
        for flag in bound.flags:
            yield Flag(flag, reason_for(site, "binding.kind", bound.reason))


def _variables(site: Site, job: Situation) -> Iterator[Variable]:
    for variable in site.profile.environment:
        if variable.verdict == "kept" and holds(variable.when, job):
            value = None if variable.unset else template(variable.value or "")
            yield Variable(variable.name, value, reason_for(site, f"environment.{variable.name}", variable.reason))
    for name, value in site.profile.network.proxies.items():
        for spelled in (name.lower(), name.upper()):
            yield Variable(spelled, value, reason_for(site, "network.proxies", "the way out of the compute nodes"))


def _prelude(site: Site, job: Situation) -> Iterator[Prelude]:
    for command in site.profile.commands:
        if command.where == "batch" and command.verdict == "kept" and holds(command.when, job):
            text = " ".join(command.argv)
            why = Reason(command.reason, f"site {site.name}: commands")
            yield Prelude(command.argv, why, f"the site's command failed: {text}", "run it by hand to see why")


def _node_prologue(site: Site, job: Situation) -> tuple[str, ...]:
    for command in site.profile.commands:
        if command.where == "node" and command.verdict == "kept" and holds(command.when, job):
            return command.argv
    return ()
