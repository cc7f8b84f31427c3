"""A shell asks for little and wants it soon: the queue that the site keeps for that. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.sites.site import Site

_PURPOSES = ("interactive", "debug")


def for_a_shell(request: Request, site: Site, shell: str) -> Request:
    """Return the request of a shell.

    One task on one node, on the site's interactive or debug queue unless one was named.
    """
    origins = dict(request.origins)
    values: dict[str, str] = {}
    tables = (("partition", "partitions", site.profile.partitions), ("qos", "qos", site.profile.qos))
    open_queues = (
        (field, f"{key}.{name}, for {purpose} work", name)
        for purpose in _PURPOSES
        for field, key, table in tables
        for name, queue in table.items()
        if queue.purpose == purpose and queue.open
    )
    field, origin, name = next(open_queues, ("", "", ""))
    if field and request.partition is None and request.qos is None:
        values[field] = name
        origins[field] = ValueOrigin(OriginKind.PROFILE, f"{site.name}: {origin}")
        other_partition = _partition_beside(site, name) if field == "qos" else None
        if other_partition is not None:
            values["partition"] = other_partition
            origins["partition"] = ValueOrigin(OriginKind.PROFILE, f"{site.name}: queue_rules, beside {name}")
    command = request.command or (shell, "-i")
    origins["ntasks_per_node"] = ValueOrigin(OriginKind.VERB, "muster shell")
    return replace(request, command=command, ntasks_per_node=1, launcher="shell", origins=origins, **values)


def _partition_beside(site: Site, qos: str) -> str | None:
    """Return the partition that the site's own rules name together with this QOS: some sites want both."""
    return next((rule.partition for rule in site.profile.queue_rules if rule.qos == qos), None)
