"""What Slurm said of this cluster, kept for an hour in the user's cache: a plan that has it asks nothing."""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

from muster.act.record import write_whole
from muster.errors import MusterError
from muster.facts import Facts
from muster.look.ask_cluster import PATIENCE_S, Silence, ask_cluster
from muster.look.cluster import configuration_file
from muster.look.programs import has_slurm_clients, on_path
from muster.ownership import Trust
from muster.runner import Runner, run
from muster.slurm.cluster_answers import PARTITION_STATES
from muster.slurm.cluster_facts import ClusterFacts
from muster.slurm.variables import scheduler_environment

KEPT_S = 3600
_PARTLY_S = 600
_SILENT_S = 60
_FRESH_S = 60


class KnownCluster(msgspec.Struct, frozen=True):
    """What is known of the cluster here."""

    facts: ClusterFacts | None = None
    silence: str = ""
    """Why nothing is known, where a Slurm is here that did not say; empty: it said, or there is none."""

    is_kept: bool = False
    """Whether it was said to an earlier command."""

    age_s: float = 0
    """How long ago."""


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file: who said it, when, and what."""

    stamp: str
    asked: float
    facts: ClusterFacts | None = None
    silence: str = ""


def know_cluster(facts: Facts, *, fresh: bool = False, runner: Runner = run, now: float | None = None) -> KnownCluster:
    """Return what Slurm says of this cluster; it is asked where nobody has asked it for an hour, or with `fresh`."""
    if not has_slurm_clients(facts.environment):
        return KnownCluster()
    moment = time.time() if now is None else now
    stamp = _stamp(facts)
    file = _file(facts, stamp)
    kept = None if fresh else _read(file, stamp, moment)
    record = kept
    if record is None:
        answer = ask_cluster(facts.user, facts.environment, runner)
        silence = answer.reason if isinstance(answer, Silence) else ""
        record = _Kept(stamp, moment, None if isinstance(answer, Silence) else answer, silence)
        _write(file, record)
    host = facts.hostname.partition(".")[0]  # another one may have asked
    cluster = record.facts and msgspec.structs.replace(record.facts, host=host)
    return KnownCluster(cluster, record.silence, is_kept=kept is not None, age_s=moment - record.asked)


def with_states_now(known: KnownCluster, facts: Facts, *, runner: Runner = run) -> KnownCluster:
    """Return what is known with the partitions as they are now: a site sets one down within the hour.

    Slurm is asked only where it said the rest a minute ago or longer: of many jobs in a row one asks. Where it is
    silent, what it said stays.
    """
    cluster = known.facts
    if cluster is None or known.age_s < _FRESH_S:
        return known
    states: dict[str, str] = {}
    with suppress(MusterError):
        answer = runner(PARTITION_STATES.argv, env=scheduler_environment(facts.environment), timeout_s=PATIENCE_S)
        states = PARTITION_STATES.read(answer.stdout) if answer.ok else {}
    partitions = tuple(
        msgspec.structs.replace(partition, state=states.get(partition.name, partition.state))
        for partition in cluster.partitions
    )
    return msgspec.structs.replace(known, facts=msgspec.structs.replace(cluster, partitions=partitions))


def _stamp(facts: Facts) -> str:
    """Return what tells one cluster, and one state of its configuration, from another.

    Where its file is not to be read, two clusters that share a home are told apart by the host.
    """
    file = configuration_file(facts.environment)
    with suppress(OSError):
        if file is not None:
            status = file.stat()
            return f"{facts.user} {file} {status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    clusters = facts.environment.get("SLURM_CLUSTERS", "")
    return f"{facts.user} {on_path('scontrol', facts.environment)} {clusters} {facts.hostname}"


def _file(facts: Facts, stamp: str) -> Path:
    cache = Path(facts.environment.get("XDG_CACHE_HOME") or Path(facts.home, ".cache"))
    return cache / "muster" / "clusters" / f"{zlib.crc32(os.fsencode(stamp)):08x}.json"


def _read(file: Path, stamp: str, now: float) -> _Kept | None:
    """Return what is kept, where it is young enough and nobody else could have written it."""
    if Trust().refusal(file) is not None:
        return None
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        return None
    longest_s = _SILENT_S if kept.facts is None else _PARTLY_S if kept.facts.unanswered else KEPT_S
    return kept if kept.stamp == stamp and 0 <= now - kept.asked < longest_s else None


def _write(file: Path, kept: _Kept) -> None:
    """Keep the answer; a cache that cannot be written costs the next command its requests, and nothing else."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, msgspec.json.encode(kept).decode())
        _remove_old(file.parent, kept.asked)


def _remove_old(folder: Path, now: float) -> None:
    """Remove what was kept of clusters and configurations that nobody asks for any more."""
    for other in folder.glob("*.json"):
        with suppress(OSError):
            if now - other.stat().st_mtime > 24 * KEPT_S:
                other.unlink()
