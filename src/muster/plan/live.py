"""What the cluster's own word decides of a request: the kind of its nodes, and its partition. Pure.

Where the profile of a site says how jobs reach their queue, that stays: a site may not want a partition to be named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from muster.errors import Refusal, refused
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.model.plan import Note, Plan
from muster.plan.asked import Asked, gpu_type_asked, gpus_asked
from muster.policy.cluster import choose_partition, partition_of, why_not_default
from muster.policy.given import is_slice, kind_for, qos_of
from muster.policy.queues import Choice
from muster.policy.rules import Ask
from muster.sites.live import signature
from muster.sites.site import SAID_HERE, Site
from muster.sites.when import Situation
from muster.slurm.cluster_facts import ClusterFacts, KindFacts


def ask_of(request: Request) -> Ask:
    """Return what the request asks of its nodes, before anything is decided."""
    gpus = gpus_asked(request)
    return Ask(
        nodes=(request.nodes or 1) + request.spares,
        gpus_per_node=gpus or 0,
        gpu_type=gpu_type_asked(request),
        ntasks_per_node=request.ntasks_per_node or gpus or 1,
        cpus_per_task=request.cpus_per_task,
        time_s=request.time.seconds if request.time else None,
        is_unlimited=request.time is not None and not request.time.seconds,
        mem=request.mem,
        partition=request.partition,
        qos=request.qos,
        account=request.account,
        constraint=request.constraint,
    )


def ask_of_asked(asked: Asked) -> Ask:
    """Return the same with the flags that Muster has no option for."""
    return replace(ask_of(asked.request), flags={flag.name: flag.value for flag in asked.flags})


def ask_of_plan(request: Request, planned: Plan) -> Ask:
    """Return the same with the queue, the account and the QOS that the plan asks for."""
    header = {directive.name: directive.value for directive in planned.directives}
    return replace(ask_of(request), **{name: header.get(name) for name in ("partition", "qos", "account")})


def judge_parts(site: Site, asks: Sequence[Ask]) -> Iterator[Note]:
    """Refuse the parts of a job that Slurm does not take together; yield why it takes and does not start them."""
    if site.cluster is None:
        return
    from muster.policy.parts import broken_together

    broken = list(broken_together(site.cluster, asks))
    denied = [(refusal, SAID_HERE) for bound, refusal in broken if not bound.is_waited_for]
    if denied:
        raise refused(*denied)
    for _, refusal in broken:
        yield Note(f"the job waits: {refusal.message} ({_said_when(site.cluster)})", warning=True)


def _said_when(cluster: ClusterFacts) -> str:
    """Return whose word it is that a job waits, and of when: it is kept for an hour, and a queue changes sooner."""
    time = cluster.asked.replace("T", " ")[:16]
    return f"what Slurm said here at {time}; --fresh asks again" if time else f"{SAID_HERE}; --fresh asks again"


def live_kind(site: Site, request: Request) -> KindFacts | None:
    """Return the kind of node that Slurm shows for this request; None: the profile knows better, or Slurm says none."""
    if site.cluster is None or (request.partition is None and site.is_described):
        return None
    return kind_for(site.cluster, request.partition, ask_of(request))


def live_kind_name(site: Site, request: Request) -> str | None:
    """Return the name of that kind in the site's layers."""
    kind = live_kind(site, request)
    return None if kind is None else site.kind_names.get(signature(kind))


def live_gpu_type(site: Site, request: Request) -> str | None:
    """Return the type to name where a GPU without one might be a slice; None: none has to be named."""
    kind = live_kind(site, request)
    if kind is None or site.cluster is None or not ask_of(request).gpus_per_node:
        return None
    types = {name for other in site.cluster.kinds_of(kind.partition) for name, _ in other.gpus}
    whole = [name for name, _ in kind.gpus if not is_slice(name)]
    return whole[0] if whole and any(map(is_slice, types)) else None


def with_cluster(asked: Asked) -> Asked:
    """Return the request with the partition that takes it, where neither the user nor the profile names one."""
    site, request = asked.site, asked.request
    if site.cluster is None or not asked.has_header:
        return asked
    ask = ask_of_asked(asked)
    if site.is_described or "reservation" in ask.flags or request.partition or request.nodelist:
        return asked
    chosen = choose_partition(site.cluster, ask, trial=request.trial, any_nodes=gpus_asked(request) is None)
    if chosen.partition is None and not ask.gpus_per_node:
        chosen = choose_partition(site.cluster, ask, trial=request.trial, any_nodes=True)
    if chosen.partition is None or chosen.is_default:
        return asked
    origin = ValueOrigin(OriginKind.CLUSTER, SAID_HERE)
    origins = {**request.origins, "partition": origin}
    reasons = {**asked.reasons, "partition": chosen.reason}
    return replace(asked, request=replace(request, partition=chosen.partition, origins=origins), reasons=reasons)


def queue_unasked(cluster: ClusterFacts, request: Request) -> tuple[str | None, str | None]:
    """Return the partition and the QOS that Slurm gives a job that names none."""
    default = cluster.default_partition
    return default.name if default else None, qos_of(cluster, ask_of(request))


def queue_in_place_of(queue: Choice, asked: Asked, job: Situation, cluster: ClusterFacts) -> Choice:
    """Return the queue of a job whose rule of the profile names a partition that this cluster does not have."""
    request, profile = asked.request, asked.site.profile
    ask = replace(ask_of_asked(asked), nodes=job.nodes, gpus_per_node=job.gpus_per_node)
    open_partitions = tuple(each for each in cluster.partitions if profile.partitions[each.name].open)
    known = replace(cluster, partitions=open_partitions)
    chosen = choose_partition(known, ask, trial=request.trial, any_nodes=not job.gpus_per_node)
    if chosen.partition is None:
        message = f"{queue.reason}, and no other partition of this cluster takes this job"
        hint = "muster queues shows the partitions and their nodes"
        raise refused((Refusal("unknown-queue", message, hint, "partitions"), SAID_HERE))
    return replace(queue, partition=chosen.partition, reason=f"{chosen.reason}; {queue.reason}")


def live_notes(asked: Asked, ask: Ask, used_keys: Collection[str]) -> Iterator[Note]:
    """Yield what the cluster says against the profile in what this job uses, and GPUs that the job omits."""
    site, cluster, gpus = asked.site, asked.site.cluster, ask.gpus_per_node
    if cluster is None:
        return
    from muster.policy.waiting import why_not_anywhere, why_not_now

    for disagreement in site.disagreements if site.is_described else ():
        if disagreement.is_about({*used_keys, f"qos.{asked.request.qos}"}):
            yield Note(disagreement.words(), warning=True)
    for client in cluster.unanswered:
        yield Note(f"Slurm did not say all of this cluster: {client}")
    why = why_not_default(cluster, ask)
    if why and cluster.default_partition is not None:
        text = f"{cluster.default_partition.name}, the default partition, is closed to this job: {why} ({SAID_HERE})"
        other = choose_partition(cluster, ask).partition
        takes = f"; -p {other} takes it" if other is not None else ""
        yield Note(f"{text}; a plug-in of the site may send it to another one{takes}", warning=True)
    if cluster.binds is False and site.profile.binding.kind not in {None, "none", "closest"}:
        yield Note(f"ranks are not bound to cores: this cluster binds none (TaskPlugin task/none, {SAID_HERE})")
    if cluster.associations == () and "associations" in cluster.enforces:
        text = "Slurm knows no account of yours on this cluster, and takes no job without one"
        yield Note(f"{text}: ask the site's support", warning=True)
    used = partition_of(cluster, ask)
    for why in why_not_anywhere(cluster, ask) if used is None else why_not_now(cluster, used, ask):
        yield Note(f"{why} ({_said_when(cluster)})", warning=True)
    if used is None:
        return
    kinds = cluster.kinds_of(used.name)
    counts = sorted({kind.gpu_count for kind in kinds if kind.gpu_count >= gpus})
    if used.is_exclusive and gpus and counts and gpus < counts[-1] and site.profile.request.sharing != "exclusive":
        words = f"the job has all {' or '.join(map(str, counts))} GPUs of a node, and uses {gpus}"
        yield Note(f"{used.name} gives whole nodes ({SAID_HERE}): {words}")
    other = choose_partition(cluster, replace(ask, partition=None)).partition
    if other and kinds and asked.request.gpus_per_node == 0 and all(kind.gpu_count for kind in kinds):
        text = f"no GPU is asked for, and all nodes of {used.name} have GPUs: -p {other} has nodes without"
        yield Note(text, warning=True)
