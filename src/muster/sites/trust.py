"""How far a profile can be trusted: by whose documents its facts come from, and of what age they are. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from muster.sites.schema_words import Source, Trust
from muster.sites.site import Site
from muster.sites.tell import lines

RECENT = dt.timedelta(days=549)
"""18 months: older documents of a site describe a machine that may have changed."""

# The keys from which a script is made. What only some programs ask for (`offered`) is not in every script.
_BEARING = frozenset(
    {
        *("nodes", "request", "partitions", "qos", "queue_rules", "memory", "launch", "rendezvous", "devices"),
        *("binding", "environment", "modules", "commands", "containers", "images", "fabric", "network"),
    }
)


def trust_of(site: Site) -> Trust:
    """Return the trust that the sources of the facts allow."""
    newest_check = max((source.checked for source in site.profile.sources.values()), default=dt.date.min)
    kinds = {_kind(source, newest_check) for source in _sources(site)} - {"vendor"}
    if kinds <= {"own"}:
        return "own"
    if not kinds & {"own", "old"}:
        return "users"
    return "old" if kinds <= {"old"} else "mixed"


def _sources(site: Site) -> Iterator[Source]:
    for line in lines(site):
        first = line.key.partition(".")[0]
        if first in _BEARING and line.origin.source is not None and not _is_aside(site, line.key):
            yield line.origin.source


def _is_aside(site: Site, key: str) -> bool:
    """Return whether the entry is offered or dropped: a usual script does not have it."""
    entry = site.get(".".join(key.split(".")[:-1]))
    return isinstance(entry, dict) and entry.get("verdict", "kept") != "kept"


def _kind(source: Source, today: dt.date) -> str:
    if source.trust == "V":
        return "vendor" if source.dated is not None and today - source.dated <= RECENT else "other"
    if source.trust == "T":
        return "other"
    return "own" if source.dated is not None and today - source.dated <= RECENT else "old"
