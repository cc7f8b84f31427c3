"""Site profile + situation of this job → the terms of the launch, each with its source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from muster.errors import UnknownName
from muster.images.reference import ImageReference
from muster.job.request import Request
from muster.launchers import launcher_named
from muster.launchers.base import Launcher
from muster.model.plan import Directive, Engine, Flag, Note, Prelude, PreludeKind, Reason, Shape, Variable
from muster.model.words import Fragment, Word, template
from muster.plan.asked import gpu_type_asked
from muster.plan.secret import shown_assignment
from muster.plan.site_queue import memory_of, requeue_of
from muster.plan.site_values import node_kind, reason_for
from muster.plan.terms import Ports, Terms
from muster.policy.masks import bind_ranks
from muster.policy.queues import Choice, is_of_another_kind
from muster.rank.vendors import VENDORS, vendor_of
from muster.sites.schema import Container, NodeKind, Queue, SiteVariable
from muster.sites.site import SAID_HERE, Site
from muster.sites.when import OFFLINE, Situation, applies, workloads_of

# Below Linux's ephemeral range (32768-60999), above what services take.
_DEFAULT_PORTS = (20000, 31999)
_OWN_ENVIRONMENT = Reason("the job's environment is what this script shows, whatever shell it was submitted from")


def forks_may_crash(site: Site, request: Request, engine: Engine) -> bool:
    """Return whether a forked process may crash beside the card of this site's network, as the job uses it."""
    return site.profile.fabric.kind == "slingshot" and engine is Engine.SLURM and "fork" not in request.workload


def situation_of(
    site: Site, request: Request, shape: Shape, launcher: Launcher, *, nccl: str | None = None
) -> Situation:
    """Return what the profile's conditions ask of a job.

    `nccl`: its version in the job's environment, where it is known.
    """
    name, node = node_kind(site, request)
    whole = request.exclusive or (node.gpus is not None and 0 < node.gpus <= shape.gpus_per_node)
    return Situation(
        nodes=shape.nodes,
        gpus_per_node=shape.gpus_per_node,
        whole_node=whole or site.profile.request.sharing == "exclusive",
        launcher=launcher.site_name or launcher.name,
        time_s=(request.time.seconds if request.time else None) or None,
        stack=_stack(site, request),
        container=request.image is not None,
        gpu_kind=name,
        nccl=nccl,
        trial=request.trial,
        workloads=_workloads(site, request),
    )


def _workloads(site: Site, request: Request) -> frozenset[str]:
    workloads = workloads_of(site.profile)
    for name in request.workload:
        if name not in workloads:
            raise UnknownName(f"workload of {site.name}", name, workloads)
    return frozenset(request.workload)


def _stack(site: Site, request: Request) -> str | None:
    """Return the software stack that is asked for, or of the site's image, a flag that brings one, the engine."""
    known_stacks = _stacks(site)
    if request.stack is not None:
        if request.stack not in known_stacks:
            raise UnknownName(f"software stack of {site.name}", request.stack, known_stacks)
        return request.stack
    if request.image is not None:
        return _stack_of_image(site, request.image, request.engine)
    brings = site.profile.launch.stack_by_flag
    flags = (flag.partition("=")[0] for flag in (*request.srun, *request.sbatch))
    return next((brings[flag] for flag in flags if flag in brings), None)


def _stack_of_image(site: Site, image: ImageReference, engine: str | None) -> str | None:
    profile = site.profile
    for name, site_image in profile.images.items():
        if image.of_site == name or (image.of_site is None and image.name == site_image.path):
            return site_image.stack
    containers = profile.containers
    container = containers.get(engine or "") or next(
        (candidate for candidate in containers.values() if candidate.engine == engine), None
    )
    preferred = next((candidate for candidate in containers.values() if candidate.preferred), Container(engine="none"))
    return (container or preferred).stack


def _stacks(site: Site) -> tuple[str, ...]:
    """Return every stack that the profile speaks of."""
    profile = site.profile
    conditions = [*(entry.when for entry in profile.environment), *(entry.when for entry in profile.commands)]
    named_stacks = [
        *profile.launch.stack_by_flag.values(),
        *(image.stack for image in profile.images.values()),
        *(container.stack for container in profile.containers.values()),
        *profile.launch.mpi_by_stack,
        *(stack for condition in conditions if condition is not None for stack in condition.stacks or ()),
    ]
    return tuple(dict.fromkeys(stack for stack in named_stacks if stack is not None))


def _listed_queue(site: Site, chosen: Choice) -> tuple[str, Queue] | None:
    """Return the key and the queue of a job where its profile lists the queue, the partition before the QOS."""
    for key, name in (("partitions", chosen.partition), ("qos", chosen.qos)):
        listed: Mapping[str, Queue] = getattr(site.profile, key)
        queue = listed.get(name or "")
        if queue is not None:
            return f"{key}.{name}", queue
    return None


def _of_queue(site: Site, chosen: Choice) -> Iterator[Note]:
    """Yield a warning of a queue that cancels jobs for others, and of a queue that is not for every project."""
    found = _listed_queue(site, chosen)
    if found is None:
        return
    key, queue = found
    name = key.partition(".")[2]
    if queue.preempted == "cancel":
        text = f"{name} cancels a job that has to make room for others: save often, and submit it again"
        yield Note(f"{text} ({site.origin(f'{key}.preempted').words()})", warning=True)
    if queue.needs is not None:
        text = f"{name} is for projects that have {queue.needs}"
        yield Note(f"{text} ({site.origin(f'{key}.needs').words()})", warning=True)


def _without_gpus(site: Site, request: Request, job: Situation, chosen: Choice) -> Iterator[Note]:
    """Yield a warning where a job without GPUs goes to nodes that have some, or may."""
    node = site.profile.nodes.get(job.gpu_kind or "", NodeKind())
    named = site.profile.partitions.get(request.partition or "")
    if request.gpus_per_node is None and named is not None and named.gpus == 0:
        gpu_queues = [name for name, queue in site.profile.partitions.items() if queue.gpus and queue.open]
        other = f"; nodes with GPUs: -p {gpu_queues[0]}" if gpu_queues else ""
        yield Note(f"{request.partition} has no GPUs: the ranks compute on CPUs (-g 0 says that it is meant){other}")
    if job.gpus_per_node or not node.gpus or site.cluster is not None or not request.given("gpus_per_node"):
        return
    cpu_queues = [name for name, queue in site.profile.partitions.items() if queue.gpus == 0 and queue.open]
    other = f"-p {cpu_queues[0]} has nodes without" if cpu_queues else "the profile lists no queue without"
    goes = f"goes to nodes with {node.gpus} GPU{'s' * (node.gpus > 1)} each, and uses none"
    if _listed_queue(site, chosen) is None:
        goes = "names no queue, so the site's own default takes it"
    yield Note(f"-g 0: the job {goes}; {other}", warning=True)


def terms_of(site: Site, request: Request, shape: Shape, job: Situation, queue: Choice) -> Terms:
    """Return everything that the site lays down for this job."""
    profile = site.profile
    site_request, launch, meeting = profile.request, profile.launch, profile.rendezvous
    whole_node = site_request.gpus == "whole-node"
    requeue, requeue_reason = requeue_of(site, request, queue)
    of_shell = "this site's own environment reaches a job from the submitting shell"
    return Terms(
        site=site.name,
        gpu_form="none" if whole_node else ("gres" if site_request.gpus == "gres" else "gpus-per-node"),
        gpu_form_reason=reason_for(site, "request.gpus", "the form in which this site wants GPUs asked for"),
        gpu_type=_gpu_type(site, request),
        requeue=requeue,
        requeue_reason=requeue_reason,
        export=site_request.export.upper(),
        export_reason=_OWN_ENVIRONMENT
        if site_request.export == "none"
        else reason_for(site, "request.export", of_shell),
        directives=tuple(_directives(site, request, shape, job, queue)),
        step_flags=tuple(_step_flags(site, shape, job, request)),
        mpi=launch.mpi_by_stack.get(job.stack or "") or launch.mpi,
        mpirun_flags=tuple(
            Flag(word, reason_for(site, "launch.mpirun", "how this site wants ranks mapped and bound"))
            for word in launch.mpirun or ()
        ),
        address_rule=_address_rule(site),
        host_suffix=(meeting.suffix or "") if meeting.host == "suffix" else "",
        address_reason=reason_for(site, "rendezvous.host", "rank 0 runs on the first host of the step"),
        ports=Ports(
            meeting.port_low or _DEFAULT_PORTS[0],
            meeting.port_high or _DEFAULT_PORTS[1],
            bool(meeting.reserved_ports),
            reason_for(site, "rendezvous.port_low", "below the range from which the kernel hands out ports"),
        ),
        hang_s=launch.hang_s,
        hang_reason=reason_for(site, "launch.hang_s", "how long a job may be silent here"),
        visibility=profile.devices.visibility or "all",
        variables=tuple(_variables(site, request, job)),
        prelude=tuple(_prelude(site, job)),
        node_prologue=_node_prologue(site, job),
    )


def _gpu_type(site: Site, request: Request) -> str | None:
    """Return the type of GPU that the header names: the typed one, that of the kind of node, the site's."""
    if request.gpu_type is not None:
        return request.gpu_type
    _, node = node_kind(site, request)
    own_type = node.gpu_type if node.gpu_type is not None else site.profile.request.gpu_type
    if own_type or site.cluster is None:
        return own_type
    from muster.plan.live import live_gpu_type

    return live_gpu_type(site, request)


def _address_rule(site: Site) -> tuple[str, ...]:
    meeting = site.profile.rendezvous
    if meeting.host == "interface" and meeting.interface:
        return ("interface", meeting.interface)
    return ("numeric",) if meeting.host == "numeric" else ()


def _directives(site: Site, request: Request, shape: Shape, job: Situation, queue: Choice) -> Iterator[Directive]:
    profile = site.profile
    for name, value in (("partition", queue.partition), ("qos", queue.qos)):
        if value is not None and name in queue.keys:
            of_partition = name == "qos" and queue.keys[name].startswith("partitions.")
            text = "the QOS of its partition" if of_partition else queue.reason
            yield Directive(name, value, reason_for(site, queue.keys[name], text))
        elif value is not None and queue.gone is not None:
            yield Directive(name, value, Reason(queue.reason, SAID_HERE))
    constraint = (profile.request.constraint or {}).get(job.gpu_kind or "")
    has_other_nodes = is_of_another_kind(profile, job.gpu_kind, gpu_type_asked(request))
    if constraint is not None and request.constraint is None and job.gpus_per_node and not has_other_nodes:
        reason = reason_for(site, "request.constraint", f"selects the {job.gpu_kind} nodes")
        yield Directive("constraint", constraint, reason)
    for flag in profile.request.sbatch or ():
        name, equals, value = flag.lstrip("-").partition("=")
        yield Directive(name, value if equals else None, reason_for(site, "request.sbatch", "every job of this site"))
    if request.mem is None and (job.gpu_kind is not None or not profile.nodes):
        yield from memory_of(site, job, replace(request, partition=queue.partition), shape)


def _step_flags(site: Site, shape: Shape, job: Situation, request: Request) -> Iterator[Flag]:
    for flag in site.profile.launch.srun or ():
        yield Flag(flag, reason_for(site, "launch.srun", "every step of this site"))
    for flag in site.profile.launch.srun_by_stack.get(job.stack or "", ()):
        yield Flag(flag, reason_for(site, f"launch.srun_by_stack.{job.stack}", f"every step with {job.stack}"))
    if launcher_named(job.launcher).rank_tasks:
        _, node = node_kind(site, request)
        bound = bind_ranks(site.profile, node, ranks=shape.ntasks_per_node, whole_node=job.whole_node)
        binds_none = site.cluster is not None and site.cluster.binds is False
        reason = reason_for(site, "binding.kind", bound.reason, short="each rank on the cores beside its GPU")
        flags = (flag for flag in bound.flags if not (binds_none and flag.startswith("--cpu-bind")))
        yield from (Flag(flag, reason) for flag in flags)


def _variables(site: Site, request: Request, job: Situation) -> Iterator[Variable]:
    profile = site.profile
    for number, variable in enumerate(profile.environment):
        if applies(variable, job):
            key, short = f"environment.{variable.name}", variable.short or ""
            reason = reason_for(site, f"environment.{number}", variable.reason, shown_key=key, short=short)
            yield Variable(variable.name, _value_of(variable), reason)
    if OFFLINE in job.workloads:
        for name, value in profile.network.offline.items():
            yield Variable(name, value, reason_for(site, "network.offline", "libraries do not wait for the internet"))
    if profile.launch.mpirun_starts_with == "ssh":
        text = "mpirun reaches the other hosts by ssh"
        reason = reason_for(site, "launch.mpirun_starts_with", f"{text}, not by Slurm", short=text)
        for name, value in launcher_named(job.launcher).reaches_by_ssh:
            yield Variable(name, value, reason)
    yield from _proxies(site, request)


def _value_of(variable: SiteVariable) -> Word | None:
    """Return the value as the script sets it: the shell fills in what another variable, or this one, holds there."""
    if variable.unset:
        return None
    if variable.value_of is None and not variable.prepended:
        return template(str(variable.value))
    if variable.value_of is None:
        return Fragment(f'"{variable.value}${{{variable.name}:+:${variable.name}}}"')
    own, other = variable.value_of, variable.name
    if not variable.prepended:
        return Fragment(f'"${{{own}-}}"')
    # A colon without a path beside it would be the working directory.
    return Fragment(f'"${{{own}-}}${{{own}:+${{{other}:+:}}}}${{{other}-}}"')


# Names of this host, which no proxy leads to.
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")


def _proxies(site: Site, request: Request) -> Iterator[Variable]:
    """Yield the proxies in both spellings, for programs read one or the other; the cluster's own names stay outside."""
    network = site.profile.network
    proxy_reason = reason_for(site, "network.proxies", "the way out of the compute nodes")
    proxies = {name.lower(): (value, proxy_reason) for name, value in network.proxies.items()}
    for assignment in request.env:
        name, equals, value = assignment.partition("=")
        if equals and name.lower() in _PROXY_NAMES:
            reason = Reason("set by you, in both spellings", f"--env {shown_assignment(assignment)}")
            proxies[name.lower()] = (value, reason)
    for name, (value, reason) in proxies.items():
        for spelled in (name, name.upper()):
            yield Variable(spelled, value, reason)
    if proxies and "no_proxy" not in proxies:
        outside = ",".join(dict.fromkeys((*_OWN_NAMES, *network.no_proxy)))
        reason = reason_for(site, "network.no_proxy", "the cluster's own names need no proxy")
        for spelled in ("no_proxy", "NO_PROXY"):
            yield Variable(spelled, outside, reason)


_PROXY_NAMES = frozenset({"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"})


def site_notes(site: Site, request: Request, shape: Shape, job: Situation, queue: Choice) -> Iterator[Note]:
    """Yield what the user should know of this site and this job before it is queued."""
    trust = say_trust(site)
    if trust is not None:
        yield Note("; ".join(filter(None, (trust, say_ran(site)))), warning=True)
    yield from _without_plugin(site, request, job)
    yield from _overruled(site, request, job)
    yield from _of_queue(site, queue)
    yield from _without_gpus(site, request, job, queue)
    if job.gpus_per_node and launcher_named(job.launcher).rank_tasks and site.profile.binding.kind in {"mask", "map"}:
        bound = bind_ranks(
            site.profile, node_kind(site, request)[1], ranks=shape.ntasks_per_node, whole_node=job.whole_node
        )
        if not bound.flags:
            yield Note(f"no CPU masks: {bound.reason}")


_TRUST = {
    "mixed": "partly on the documents of the site, partly on what others wrote",
    "users": "only on what users of the site published",
    "old": "on documents of the site that are older than 18 months, or have no date",
}


def say_trust(site: Site) -> str | None:
    """Return one line about the documents of a profile; None where they are the site's own and recent."""
    words = _TRUST.get(site.profile.trust or "")
    return None if words is None else f"the profile of {site.name} rests {words} (muster site show {site.name} --why)"


def say_ran(site: Site) -> str | None:
    """Return whether a script of this profile has ever run at the site; None where the profile does not say."""
    if site.profile.ran is None:
        return None
    if site.profile.ran == "never":
        return f"no script of Muster's has run at {site.name} yet"
    return f"a script of Muster's ran at {site.name} on {site.profile.ran}"


def _without_plugin(site: Site, request: Request, job: Situation) -> Iterator[Note]:
    """Yield a note where collectives need a plugin to reach the fabric, and nothing in the job brings the plugin."""
    fabric = site.profile.fabric
    is_known = fabric.plugin_stacks or fabric.plugin_modules or (request.image and not fabric.plugin_in_image)
    if job.nodes < 2 or not job.gpus_per_node or not is_known:
        return
    modules = (*request.module, *(() if request.image else site.profile.modules.load or ()))
    parts = [alternative.split("/") for name in modules for alternative in name.split("|")]
    # brics/nccl/2.26 is a version of the module brics/nccl.
    names = {"/".join(words[:length]) for words in parts for length in range(1, len(words) + 1)}
    if job.stack in fabric.plugin_stacks or names & set(fabric.plugin_modules):
        return
    library = (vendor_of(node_kind(site, request)[1].gpu_kind) or VENDORS[0]).library
    text = f"nothing of this job brings the plugin for the fabric of {site.name}"
    yield Note(f"{text}: {library} would go over TCP, many times slower ({fabric.plugin})", warning=True)


def _overruled(site: Site, request: Request, job: Situation) -> Iterator[Note]:
    """Yield what the user sets or unsets although the job needs it, or beside what must not stand with it."""
    own_values = {assignment.partition("=")[0]: assignment for assignment in request.env}
    for variable in site.profile.environment:
        if not applies(variable, job):
            continue
        own_value = own_values.get(variable.name)
        is_other = own_value is not None and (variable.unset or own_value.partition("=")[2] != variable.value)
        if variable.required and (variable.name in request.unset_env or is_other):
            word = f"--env {shown_assignment(own_value)}" if own_value else f"--unset-env {variable.name}"
            yield Note(f"{word}: {site.name} needs {_said(variable)}: {variable.reason}", warning=True)
        for conflicting_name in variable.conflicts:
            if conflicting_name in own_values and not variable.unset and variable.name not in request.unset_env:
                assignment = shown_assignment(own_values[conflicting_name])
                text = f"--env {assignment} goes against {_said(variable)} of {site.name}: {variable.reason}"
                yield Note(text, warning=True)


def _said(variable: SiteVariable) -> str:
    return f"{variable.name} unset" if variable.unset else f"{variable.name}={variable.value}"


def _prelude(site: Site, job: Situation) -> Iterator[Prelude]:
    for number, command in enumerate(site.profile.commands):
        if command.where == "batch" and applies(command, job):
            text = " ".join(command.argv)
            reason = reason_for(site, f"commands.{number}", command.reason, shown_key="commands")
            kind = PreludeKind.MODULE if command.argv[0] == "module" else PreludeKind.COMMAND
            yield Prelude(kind, command.argv, reason, f"the site's command failed: {text}", "run it by hand to see why")


def _node_prologue(site: Site, job: Situation) -> tuple[str, ...]:
    for command in site.profile.commands:
        if command.where == "node" and applies(command, job):
            return command.argv
    return ()
