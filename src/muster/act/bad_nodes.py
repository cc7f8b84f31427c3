"""The nodes that failed under this user's jobs, for each cluster one file: `$XDG_STATE_HOME/muster/nodes/CLUSTER.json`.

Only what is the node's own counts against it: Slurm said that it died; an error that is known to be of a node; ranks
of several scripts ended there suddenly, and these scripts ran well on other nodes and ended so on none. That a node
died is forgotten when Slurm gives it to jobs again; anything else after a week, or by `muster nodes --clear`. A file
that belongs to another user is not read, and one that cannot be read is not written.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from muster.act.record import safe_name, write_whole
from muster.errors import RequestError, SiteError
from muster.older import StrEnum
from muster.slurm.cluster import NodeState

KEPT_S = 7 * 24 * 3600


class MemoryUnreadable(SiteError):
    """The file of a cluster is damaged, or somebody else's: it is neither read nor written."""


class NodeFault(StrEnum):
    """What counts against a node."""

    DIED = "died"
    KNOWN = "known"
    FIRST = "first"  # a rank ended there suddenly, before any other: alone not enough
    UNSAID = "unsaid"  # how its ranks ended is not known: not enough before Slurm calls it down


class Sighting(msgspec.Struct, frozen=True):
    """One thing that happened on a node."""

    node: str
    job: str
    when: int
    """Seconds since 1970."""

    cause: NodeFault
    words: str
    script: str = ""
    """Of the first to fail: which script, since a script may fail wherever it runs."""

    @property
    def expires(self) -> int:
        """When it is forgotten."""
        return self.when + KEPT_S

    @property
    def is_of_slurm(self) -> bool:
        """Return whether Slurm's word decides it: Slurm calls the node down, or gives it to jobs again."""
        return self.cause is NodeFault.DIED or self.cause is NodeFault.UNSAID


class WellRun(msgspec.Struct, frozen=True):
    """One start of a script that ended well."""

    script: str
    job: str
    nodes: tuple[str, ...]
    when: int


class BadNode(msgspec.Struct, frozen=True):
    """A node that the next jobs do not get, and why."""

    node: str
    cause: str
    job: str
    when: int
    expires: int


class KnownFaults(msgspec.Struct, frozen=True):
    """What one file holds."""

    sightings: tuple[Sighting, ...]
    cleared: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """When a node was forgotten: what happened before that does not count."""

    back: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """When Slurm gave a node to jobs again: that it died before that does not count."""

    well: tuple[WellRun, ...] = ()
    looked_at: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """By job: the time of its newest file when it was last read."""


def is_own_file(path: Path) -> bool:
    """Return whether a file is this user's own, and no link."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def load(state: Path, cluster: str) -> KnownFaults:
    """Return what is remembered of a cluster: nothing where there is no file. A file that cannot be read stays."""
    path = _path(state, cluster)
    try:
        path.lstat()
    except FileNotFoundError:
        return KnownFaults(())
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    if not is_own_file(path):
        raise _unreadable(path, "it is another user's, or a link")
    try:
        return msgspec.json.decode(path.read_bytes(), type=KnownFaults)
    except (OSError, msgspec.DecodeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, why: object) -> MemoryUnreadable:
    return MemoryUnreadable(
        f"the nodes that failed under earlier jobs are not known: {path} cannot be read: {why}",
        hint=f"look at it; rm {shlex.quote(str(path))} forgets what it holds",
    )


def remember(
    memory: KnownFaults,
    sightings: Iterable[Sighting],
    looked_at: Mapping[str, int],
    *,
    well: Iterable[WellRun] = (),
    now: float | None = None,
) -> KnownFaults:
    """Return the memory with what was seen since, and without what is too old, was cleared, or is over."""
    moment = time.time() if now is None else now
    merged = {(sighting.node, sighting.job, sighting.cause): sighting for sighting in (*memory.sightings, *sightings)}
    living = tuple(
        sighting for sighting in merged.values() if sighting.expires > moment and not _is_over(memory, sighting)
    )
    well_runs = {(run.job, run.nodes): run for run in (*memory.well, *well) if run.when + KEPT_S > moment}
    return replace(
        memory,
        sightings=living,
        well=tuple(well_runs.values()),
        cleared=_recent(memory.cleared, moment),
        back=_recent(memory.back, moment),
        looked_at=dict(looked_at),
    )


def _recent(moments: Mapping[str, int], now: float) -> dict[str, int]:
    return {node: when for node, when in moments.items() if when + KEPT_S > now}


def _is_over(memory: KnownFaults, sighting: Sighting) -> bool:
    """Return whether a sighting was cleared, or its node is back."""
    if sighting.when <= memory.cleared.get(sighting.node, 0):
        return True
    return sighting.is_of_slurm and sighting.when <= memory.back.get(sighting.node, 0)


_DOWN_LATER = "how its ranks ended is not known, and then Slurm called it down"


def with_states(memory: KnownFaults, states: Mapping[str, NodeState]) -> KnownFaults:
    """Return the memory as Slurm sees the nodes now: one that is down has died, and one that takes jobs is back."""
    moment = int(time.time())
    is_back = {node for node, state in states.items() if state is NodeState.UP}
    is_down = {node for node, state in states.items() if state is NodeState.DOWN}
    told = (
        replace(sighting, cause=NodeFault.DIED, words=_DOWN_LATER)
        if sighting.cause is NodeFault.UNSAID and sighting.node in is_down
        else sighting
        for sighting in memory.sightings
    )
    back = {**memory.back, **{each.node: moment for each in memory.sightings if each.node in is_back & _lost(memory)}}
    return remember(replace(memory, sightings=tuple(told), back=back), (), memory.looked_at)


def _lost(memory: KnownFaults) -> set[str]:
    return {sighting.node for sighting in memory.sightings if sighting.is_of_slurm}


def nodes_to_ask_about(memory: KnownFaults) -> list[str]:
    """Return the nodes on which Slurm's word decides."""
    return sorted(_lost(memory))


def save(state: Path, cluster: str, memory: KnownFaults) -> None:
    """Write the file of a cluster."""
    path = _path(state, cluster)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(memory).decode() + "\n")


def bad_nodes(memory: KnownFaults) -> list[BadNode]:
    """Return the nodes against which enough was seen, each once, by name."""
    nodes_by_name: dict[str, BadNode] = {}
    for sighting in sorted(memory.sightings, key=lambda sighting: sighting.when):
        if sighting.cause is NodeFault.DIED or sighting.cause is NodeFault.KNOWN:
            nodes_by_name[sighting.node] = BadNode(
                sighting.node, sighting.words, sighting.job, sighting.when, sighting.expires
            )
    for node in {sighting.node for sighting in memory.sightings} - nodes_by_name.keys():
        bad_node = _where_scripts_fail(memory, node)
        if bad_node is not None:
            nodes_by_name[node] = bad_node
    return sorted(nodes_by_name.values(), key=lambda bad: bad.node)


def _where_scripts_fail(memory: KnownFaults, node: str) -> BadNode | None:
    """Return the node if two scripts failed first on it, ran well on others, and never failed so on others."""
    first_failures = [sighting for sighting in memory.sightings if sighting.cause is NodeFault.FIRST]
    newest_by_script = {
        sighting.script: sighting
        for sighting in sorted(first_failures, key=lambda sighting: sighting.when)
        if sighting.node == node
    }
    blaming = [
        sighting
        for script, sighting in newest_by_script.items()
        if script
        and all(other.node == node for other in first_failures if other.script == script)
        and any(run.script == script and node not in run.nodes for run in memory.well)
    ]
    if len({sighting.job for sighting in blaming}) < _ENOUGH_SCRIPTS:
        return None
    *_, before, last = sorted(blaming, key=lambda sighting: (sighting.when, sighting.job.zfill(15)))
    words = (
        f"the first to fail in the jobs {before.job} and {last.job}, whose scripts ran well elsewhere ({last.words})"
    )
    return BadNode(node, words, last.job, last.when, before.expires)


_ENOUGH_SCRIPTS = 2


def forget_nodes(state: Path, cluster: str, nodes: Collection[str]) -> list[str]:
    """Forget these nodes, or all where none is named; return which were forgotten."""
    memory = load(state, cluster)
    known_names = {bad_node.node for bad_node in bad_nodes(memory)}
    for node in nodes:
        if node not in known_names:
            raise RequestError(f"nothing is remembered against {node}", hint="muster nodes lists the nodes")
    going = sorted(set(nodes) or known_names)
    if going:
        now = int(time.time())
        cleared = {**memory.cleared, **dict.fromkeys(going, now)}
        sightings_left = tuple(sighting for sighting in memory.sightings if sighting.node not in going)
        save(state, cluster, replace(memory, sightings=sightings_left, cleared=cleared))
    return going


def _path(state: Path, cluster: str) -> Path:
    return state / "nodes" / f"{safe_name(cluster) or 'unnamed'}.json"
