"""One value of a site for a launch: why it is so, and the kind of node that it is about. Pure."""

from __future__ import annotations

from muster.job.request import Request
from muster.model.plan import Reason
from muster.plan.live import live_kind_name
from muster.policy.queues import kind_of
from muster.sites.schema import NodeKind
from muster.sites.site import Site
from muster.slurm.flags import gpu_type_in_gres


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
    """Return the kind of node that this request gets.

    Its queue's, its constraint's, its account's, else the site's first.
    """
    profile = site.profile
    name = live_kind_name(site, request) or kind_of(
        profile,
        partition=request.partition,
        qos=request.qos,
        constraint=request.constraint,
        account=request.account,
        gpu_type=request.gpu_type or gpu_type_in_gres(request.gres),
    )
    return name, profile.nodes[name] if name is not None and name in profile.nodes else NodeKind()
