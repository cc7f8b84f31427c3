"""The nodes that failed under this user's jobs, for each cluster one file: `$XDG_STATE_HOME/muster/nodes/CLUSTER.json`.

Three causes count against a node: Slurm said that it died; an error that is known to be of a node; twice the first
to fail, in different jobs. What was seen is forgotten after a week, or by `muster nodes --clear`. A file that belongs
to another user is not read, and one that cannot be read is not written.
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

KEPT_S = 7 * 24 * 3600


class MemoryUnreadable(SiteError):
    """The file of a cluster is damaged, or somebody else's: it is neither read nor written."""


class NodeFault(StrEnum):
    """What counts against a node."""

    DIED = "died"
    KNOWN = "known"
    FIRST = "first"  # one alone is not enough


class Sighting(msgspec.Struct, frozen=True):
    """One thing that happened on a node."""

    node: str
    job: str
    when: int
    """Seconds since 1970."""

    cause: NodeFault
    words: str
    what: str = ""
    """Of the first to fail: which rank of which command, since a script may fail at one place wherever it runs."""

    @property
    def expires(self) -> int:
        """When it is forgotten."""
        return self.when + KEPT_S


class BadNode(msgspec.Struct, frozen=True):
    """A node that the next jobs do not get, and why."""

    node: str
    cause: str
    job: str
    when: int
    expires: int


class KnownFaults(msgspec.Struct, frozen=True):
    """What one file holds."""

    sightings: tuple[Sighting, ...] = ()
    cleared: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """When a node was forgotten: what happened before that does not count."""

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
        return KnownFaults()
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
    memory: KnownFaults, sightings: Iterable[Sighting], looked_at: Mapping[str, int], *, now: float | None = None
) -> KnownFaults:
    """Return the memory with what was seen since, and without what is too old or was cleared."""
    moment = time.time() if now is None else now
    merged = {(sighting.node, sighting.job, sighting.cause): sighting for sighting in (*memory.sightings, *sightings)}
    living = tuple(
        sighting
        for sighting in merged.values()
        if sighting.expires > moment and sighting.when > memory.cleared.get(sighting.node, 0)
    )
    cleared = {node: when for node, when in memory.cleared.items() if when + KEPT_S > moment}
    return replace(memory, sightings=living, cleared=cleared, looked_at=dict(looked_at))


def save(state: Path, cluster: str, memory: KnownFaults) -> None:
    """Write the file of a cluster."""
    path = _path(state, cluster)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(memory).decode() + "\n")


def bad_nodes(memory: KnownFaults) -> list[BadNode]:
    """Return the nodes against which enough was seen, each once, by name."""
    nodes_by_name: dict[str, BadNode] = {}
    for sighting in sorted(memory.sightings, key=lambda sighting: sighting.when):
        if sighting.cause is not NodeFault.FIRST:
            nodes_by_name[sighting.node] = BadNode(
                sighting.node, sighting.words, sighting.job, sighting.when, sighting.expires
            )
        elif (earlier_sighting := _other_first(memory, sighting)) is not None and sighting.node not in nodes_by_name:
            words = f"the first to fail in the jobs {earlier_sighting.job} and {sighting.job} ({sighting.words})"
            nodes_by_name[sighting.node] = BadNode(
                sighting.node, words, sighting.job, sighting.when, earlier_sighting.expires
            )
    return sorted(nodes_by_name.values(), key=lambda bad: bad.node)


def _other_first(memory: KnownFaults, last: Sighting) -> Sighting | None:
    """Return an earlier first failure on the node, in another job and at another place of its script."""
    return next(
        (
            candidate
            for candidate in memory.sightings
            if candidate.cause is NodeFault.FIRST
            and candidate.node == last.node
            and candidate.job != last.job
            and candidate.what != last.what
            and candidate.when <= last.when
        ),
        None,
    )


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
