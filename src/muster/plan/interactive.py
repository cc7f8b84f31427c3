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
    if request.partition is None and request.qos is None:
        for purpose in _PURPOSES:
            for field, table in (("partition", site.profile.partitions), ("qos", site.profile.qos)):
                name = next((name for name, queue in table.items() if queue.purpose == purpose and queue.open), None)
                if name is not None and not values:
                    values[field] = name
                    key = "partitions" if field == "partition" else "qos"
                    origins[field] = ValueOrigin(OriginKind.PROFILE, f"{site.name}: {key}.{name}, for {purpose} work")
                    other_partition = _partition_beside(site, name) if field == "qos" else None
                    if other_partition is not None:
                        values["partition"] = other_partition
                        origins["partition"] = ValueOrigin(
                            OriginKind.PROFILE, f"{site.name}: queue_rules, beside {name}"
                        )
    command = request.command or (shell, "-i")
    origins["ntasks_per_node"] = ValueOrigin(OriginKind.VERB, "muster shell")
    return replace(request, command=command, ntasks_per_node=1, launcher="shell", origins=origins, **values)


def _partition_beside(site: Site, qos: str) -> str | None:
    """Return the partition that the site's own rules name together with this QOS: some sites want both."""
    return next((rule.partition for rule in site.profile.queue_rules if rule.qos == qos), None)
