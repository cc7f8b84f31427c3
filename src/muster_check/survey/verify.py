"""Does a profile hold? Held against what the cluster itself answers: a finding for each fact that does not. Pure.

What Slurm says is compared as every plan compares it (`sites/live.py`); what Slurm cannot say, with what was seen in a
login shell and on a node. What one of both sides does not know is not compared.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from muster.images import engine_named
from muster.sites.live import live_layer, signature
from muster.sites.live_site import disagreements_with
from muster.sites.schema import Profile
from muster.sites.site import Origin, Site
from muster.slurm.cluster_facts import ClusterFacts
from muster_check.survey.draft import Survey, drafted_profile, own_kind

SLURM_SAYS = "Slurm says here"
_SRUN_SAYS = "srun --mpi=list says"
_NODE_SHOWS = "a compute node shows"


class WrongFact(msgspec.Struct, frozen=True):
    """One fact of a profile that does not hold."""

    key: str
    says: str
    """What the profile says."""

    by: str
    """Who says otherwise, with the verb: "a compute node shows"."""

    seen: str
    origin: Origin
    value: str | None = None
    """What to write in the profile's place, as --site-set takes it; None: no one value stands for what was seen."""

    @property
    def hint(self) -> str:
        """Return what to type for one command, until the profile is corrected."""
        return "" if self.value is None else f"--site-set {shlex.quote(f'{self.key}={self.value}')}"

    def words(self) -> str:
        """Return words for a person: the fact, both values, and where each comes from."""
        place = f"{self.origin.file}:{self.origin.line}" if self.origin.line else self.origin.file
        source = f"; {self.origin.words()}" if self.origin.source else ""
        return f"{self.key}: the profile says {self.says} ({place}{source}), {self.by} {self.seen}"


_Misfit = tuple[str, str, str, str]
"""Key, what the profile says, who says otherwise, and what."""


def verify(site: Site, survey: Survey) -> list[WrongFact]:
    """Return what the profile says and the cluster does not."""
    measured = drafted_profile(survey)
    misfits = [] if survey.cluster is None else [*_by_slurm(site, survey.cluster)]
    misfits += _node(site.profile, survey, measured)
    misfits += [misfit for check in _CHECKS for misfit in check(site.profile, measured)]
    return [WrongFact(key, says, by, seen, site.origin(key), _value(measured, key)) for key, says, by, seen in misfits]


def unlisted(profile: Profile, cluster: ClusterFacts) -> dict[str, list[str]]:
    """Return the partitions and QOS of the cluster that a profile with partitions or QOS does not have."""
    pairs = (("partitions", profile.partitions, cluster.partitions), ("qos", profile.qos, cluster.qos))
    return {
        kind: names
        for kind, known, there in pairs
        if known and (names := sorted({queue.name for queue in there} - {*known}))
    }


# Keys of which the value that was seen may stand in the profile as it is. What Slurm says needs none: plans use it.
_SETTABLE = re.compile(r"launch\.mpi_types|fabric\.(kind|interfaces|hcas)|network\.internet")


def _value(measured: Profile, key: str) -> str | None:
    """Return what the cluster has at a key, as TOML."""
    if key == "launch.mpi" and measured.launch.mpi_types:
        return json.dumps(
            next((mpi_type for mpi_type in ("pmix", "pmi2") if mpi_type in measured.launch.mpi_types), "none")
        )
    if not _SETTABLE.fullmatch(key):
        return None
    value: Any = measured
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if value is None else json.dumps(list(value) if isinstance(value, tuple) else value)


# ---------------------------------------------------------------- what Slurm says


def _by_slurm(site: Site, cluster: ClusterFacts) -> Iterator[_Misfit]:
    profile = site.profile
    names = profile.detect.cluster_names
    if names and cluster.name and cluster.name not in names:
        yield "detect.cluster_names", f"the cluster is called {_list(names)}", SLURM_SAYS, cluster.name
    for disagreement in disagreements_with(site, cluster):
        if _is_closed(profile, disagreement.key):
            continue
        if disagreement.cluster is None:
            yield disagreement.key, "there is one", SLURM_SAYS, "there is none"
        else:
            yield disagreement.key, disagreement.profile, SLURM_SAYS, disagreement.cluster
    for name, queue in profile.partitions.items():
        there = cluster.partition(name)
        if there is not None and queue.open and not there.is_up:
            yield f"partitions.{name}.open", "yes", SLURM_SAYS, f"no, it is {there.state}"
    for field, value in (("kills_on_bad_exit", cluster.kills_on_bad_exit), ("slurm", cluster.version or None)):
        own_value = getattr(profile.launch, field)
        if own_value is not None and value is not None and own_value != value:
            yield f"launch.{field}", _said(own_value), SLURM_SAYS, _said(value)
    yield from _names_of_requests(profile, cluster)


def _is_closed(profile: Profile, key: str) -> bool:
    """Return whether a key is of a queue that the profile itself calls closed: nothing is lost with it."""
    kind, _, name = key.partition(".")
    queues = {"partitions": profile.partitions, "qos": profile.qos}.get(kind, {})
    return any(not queue.open and (name == known or name.startswith(f"{known}.")) for known, queue in queues.items())


def _names_of_requests(profile: Profile, cluster: ClusterFacts) -> Iterator[_Misfit]:
    """Yield the types of GPU and the features that a request may name and no node has."""
    if not cluster.kinds:
        return
    there = {
        "gres_names": {f"gpu:{gpu_type}" for kind in cluster.kinds for gpu_type, _ in kind.gpus if gpu_type},
        "features": {feature for kind in cluster.kinds for feature in kind.features},
    }
    for field, names in there.items():
        typed_names = [value for value in getattr(profile.request, field) or () if field == "features" or ":" in value]
        missing = [word for value in typed_names for word in value.split("&") if word not in names]
        if missing:
            yield f"request.{field}", f"there is {_list(missing)}", SLURM_SAYS, _list(sorted(names)) or "none"


# ---------------------------------------------------------------- what Slurm cannot say


def _node(profile: Profile, survey: Survey, measured: Profile) -> Iterator[_Misfit]:
    """Compare the inside of the job's node with the kind of node that the profile has in its place."""
    kind = own_kind(survey)
    if kind is None or survey.cluster is None:
        return
    name = live_layer(profile, survey.cluster).kind_names.get(signature(kind), "")
    node = profile.nodes.get(name)
    if node is None:
        return
    inside = next(iter(measured.nodes.values()))
    for field in ("arch", "gpu_kind", "numa", "gpu_numa"):
        own_value, measured_value = getattr(node, field), getattr(inside, field)
        if own_value is not None and measured_value is not None and own_value != measured_value:
            yield f"nodes.{name}.{field}", _said(own_value), _NODE_SHOWS, _said(measured_value)


def _launch(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    types = measured.launch.mpi_types
    if not types:
        return
    if profile.launch.mpi is not None and profile.launch.mpi not in types:
        yield "launch.mpi", f"srun --mpi={profile.launch.mpi}", _SRUN_SAYS, _list(types)
    missing = [
        mpi_type
        for mpi_type in profile.launch.mpi_types or ()
        if mpi_type not in types and mpi_type != profile.launch.mpi
    ]
    if missing:
        yield "launch.mpi_types", f"there is {_list(missing)}", _SRUN_SAYS, _list(types)


def _fabric(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    if measured.fabric.kind and profile.fabric.kind and measured.fabric.kind != profile.fabric.kind:
        yield "fabric.kind", profile.fabric.kind, _NODE_SHOWS, measured.fabric.kind
    for field in ("interfaces", "hcas"):
        measured_values = getattr(measured.fabric, field)
        missing = [
            value for value in getattr(profile.fabric, field) or () if measured_values and value not in measured_values
        ]
        if missing:
            yield f"fabric.{field}", f"there is {_list(missing)}", _NODE_SHOWS, _list(measured_values)


def _containers(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    """Compare engines; one that a module brings is not there before the module is loaded."""
    measured_engines = [container.engine for container in measured.containers.values()]
    for name, container in profile.containers.items():
        engine = engine_named(container.engine)
        is_on_path = bool(engine.program or engine.step_option) and not container.modules
        if measured_engines and is_on_path and container.engine not in measured_engines:
            yield f"containers.{name}", f"there is {container.engine}", _NODE_SHOWS, _list(measured_engines)


def _network(profile: Profile, measured: Profile) -> Iterator[_Misfit]:
    has_route = {"open": True, "nat": True, "none": False, "none-even-login": False}
    own_value, measured_value = profile.network.internet, measured.network.internet
    if own_value in has_route and measured_value in has_route and has_route[own_value] != has_route[measured_value]:
        yield "network.internet", str(own_value), _NODE_SHOWS, str(measured_value)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _list(map(str, value)) if isinstance(value, tuple) else str(value)


def _list(words: Collection[str] | Iterator[str]) -> str:
    return ", ".join(words)


_CHECKS: tuple[Callable[[Profile, Profile], Iterator[_Misfit]], ...] = (_launch, _fabric, _containers, _network)
