"""One value of a site for a launch: why it is so, and the kind of node that it is about. Pure."""

from __future__ import annotations

from muster.job.request import Request
from muster.model.plan import Reason
from muster.plan.asked import gpu_type_asked
from muster.policy.queues import Choice, choose_queue, default_partition, kind_of
from muster.sites.schema import NodeKind
from muster.sites.site import Site
from muster.sites.when import Situation


def reason_for(site: Site, key: str, text: str, *, shown_key: str | None = None, short: str = "") -> Reason:
    """Return the reason of a value that the profile gives: its own words first, with document and date.

    `shown`: the key in a person's words, where `key` is the number of an entry.
    """
    origin = site.origin(key)
    source = None if origin.source is None else f"{origin.source.title}, {origin.source.at}"
    place = f"site {site.name}: {shown_key or key}" if origin.layer == "bundled" else origin.words()
    checked = str(origin.checked) if origin.checked else None
    return Reason(origin.reason or text, place, source, checked, shown_key or key, short)


def node_kind(site: Site, request: Request) -> tuple[str | None, NodeKind]:
    """Return the kind of node that this request gets, by the queue that it names or that the site's rules give it."""
    profile = site.profile
    name = _live_kind_name(site, request) or _kind_of(site, request)
    return name, profile.nodes[name] if name in profile.nodes else NodeKind()


def _live_kind_name(site: Site, request: Request) -> str | None:
    if site.cluster is None:
        return None
    from muster.plan.live import live_kind_name

    return live_kind_name(site, request)


def _kind_of(site: Site, request: Request) -> str | None:
    """Return the kind of node of the queue that is named, else of the queue that the profile's rules give."""
    name = _kind_in(site, request, request.partition, request.qos)
    if request.partition is not None or (request.qos is None and request.gpus_per_node is None):
        return name
    chosen = _queue_asked(site, request, name)
    return name if chosen.gone is not None else _kind_in(site, request, chosen.partition, chosen.qos)


def queue_names(site: Site, request: Request) -> tuple[str | None, str | None]:
    """Return the partition and the QOS that this request gets, before its size is settled; the default where none.

    None: not known, or the rule that holds names a partition that is not there.
    """
    chosen = _queue_asked(site, request, _kind_in(site, request, request.partition, request.qos))
    return (
        (None, None) if chosen.gone is not None else (chosen.partition or default_partition(site.profile), chosen.qos)
    )


def _queue_asked(site: Site, request: Request, kind: str | None) -> Choice:
    profile, gpus = site.profile, request.gpus_per_node
    most = profile.nodes[kind].gpus if kind in profile.nodes else None
    job = Situation(
        nodes=request.nodes or 1,
        gpus_per_node=(most or 0) if gpus is None else gpus,
        whole_node=request.exclusive or bool(most and gpus and gpus >= most),
        time_s=(request.time.seconds if request.time else None) or None,
        gpu_kind=kind,
        trial=request.trial,
    )
    return choose_queue(
        profile,
        job,
        partition=request.partition,
        qos=request.qos,
        gpu_type=gpu_type_asked(request),
        there=site.partitions_there,
    )


def _kind_in(site: Site, request: Request, partition: str | None, qos: str | None) -> str | None:
    return kind_of(
        site.profile,
        partition=partition,
        qos=qos,
        constraint=request.constraint,
        account=request.account,
        gpu_type=gpu_type_asked(request),
        gpus=request.gpus_per_node,
        cpus=(request.ntasks_per_node or request.gpus_per_node or 1) * (request.cpus_per_task or 0),
    )
