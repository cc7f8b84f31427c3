"""A site with the word of its cluster over its profile, and where the two disagree. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from muster.sites.layers import Layer, merge
from muster.sites.live import is_counted_otherwise, leaves, live_layer
from muster.sites.schema import Profile, to_known_profile
from muster.sites.site import Disagreement, Site
from muster.slurm.cluster_facts import ClusterFacts


def with_cluster(site: Site, base_layers: Sequence[Layer], own_layers: Sequence[Layer], cluster: ClusterFacts) -> Site:
    """Return the site with what Slurm says. The layers were checked without it: it may remove what they name."""
    base = site
    if own_layers:
        merged = merge(base_layers)
        base = Site(to_known_profile(merged.table), tuple(base_layers), merged)
    live = live_layer(base.profile, cluster)
    layers = (*base_layers, live.layer, *own_layers)
    merged = merge(layers)
    profile = to_known_profile(merged.table)
    disagreements = tuple(_disagreements(base, live.layer))
    return Site(profile, layers, merged, (), cluster, live.kind_names, _is_described(base.profile), disagreements)


def _is_described(profile: Profile) -> bool:
    """Return whether the profile says how a job reaches its nodes; a draft has only seen what its nodes are."""
    return bool(profile.partitions or profile.qos or profile.queue_rules or (profile.nodes and not profile.draft))


def disagreements_with(site: Site, cluster: ClusterFacts) -> tuple[Disagreement, ...]:
    """Return all that the site's layers say and Slurm does not."""
    return tuple(_disagreements(site, live_layer(site.profile, cluster).layer))


def _disagreements(base: Site, layer: Layer) -> Iterator[Disagreement]:
    """Yield each value of the profile that the layer replaces or removes."""
    for key in layer.table.get("without", ()):
        if not key.startswith("nodes."):
            yield Disagreement(key, "", base.origin(key).words(), None)
    for path, value in leaves(layer.table):
        own_value = base.value_at(path)
        if own_value is not None and own_value != value and not is_counted_otherwise(base.profile, path, value):
            yield Disagreement(".".join(path), _shown(own_value), base.origin_at(path).words(), _shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"
