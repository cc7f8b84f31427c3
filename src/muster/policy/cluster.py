"""What this cluster takes, by its own word: the names, the partition for a request, and what is refused. Pure.

A partition is judged in one way, whether it was named or is to be found. What Slurm did not say is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from muster.errors import Refusal, nearest_hint
from muster.policy.given import account_of, associations_of, gpus_of, kind_for, qos_of, words_of_constraint
from muster.policy.limits import broken_bounds
from muster.policy.rules import LEADS_ELSEWHERE, Ask
from muster.sites.live import how_preempted
from muster.slurm.cluster_facts import ClusterFacts, PartitionFacts
from muster.slurm.submit import array_indices
from muster.units import format_walltime

NAMED_BY_SLURM = frozenset({"partition", "QOS", "GPU type", "account", "feature"})
"""The kinds of names of which Slurm has the last word where it was asked."""


def refusals_here(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield what this cluster refuses in this request, by every name and every number of it."""
    yield from _known_partition(cluster, ask)
    yield from _account(cluster, ask)
    yield from _qos(cluster, ask)
    yield from _features(cluster, ask)
    yield from _segment(cluster, ask)
    yield from _array(cluster, ask)
    partition = partition_of(cluster, ask)
    if partition is None:
        yield from _any_partition(cluster, ask)
        return
    broken = [*_closed(cluster, partition, ask), *_types(cluster, partition, ask), *_denied(cluster, partition, ask)]
    others = _others(cluster, ask, partition.name) if broken else ""
    for refusal in broken:
        hint = "; ".join(filter(None, (refusal.hint, others)))
        yield refusal._replace(hint=hint) if refusal.key.startswith("partitions.") else refusal


def _denied(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield the numbers beyond which Slurm takes no job."""
    return (refusal for bound, refusal in broken_bounds(cluster, partition, ask) if not bound.is_waited_for)


def partition_of(cluster: ClusterFacts, ask: Ask) -> PartitionFacts | None:
    """Return the one partition of the job: the named one, else the default where nothing leads elsewhere."""
    if ask.partition:
        return cluster.partition(ask.partition)
    return None if cluster.routes or LEADS_ELSEWHERE & ask.flags.keys() else cluster.default_partition


def why_not_default(cluster: ClusterFacts, ask: Ask) -> str:
    """Return why the default partition is closed to this job, where the site may still send it to another one."""
    default = cluster.default_partition
    if default is None or ask.partition or not cluster.routes:
        return ""
    broken = (refusal for refusal in _denied(cluster, default, ask) if not refusal.key.startswith("partitions."))
    return next((refusal.message for refusal in (*_closed(cluster, default, ask), *broken)), "")


def _any_partition(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal where several partitions may be the job's, and the nodes of none have what is asked for."""
    if not cluster.kinds:
        return
    named, reasons = (ask.partition or "").split(","), []
    for partition in [each for each in cluster.partitions if not ask.partition or each.name in named]:
        broken = (refusal for refusal in _denied(cluster, partition, ask) if refusal.key.startswith("partitions."))
        reasons.append(next((refusal.message for refusal in (*_types(cluster, partition, ask), *broken)), ""))
    if reasons and all(reasons):
        which = f"none of {ask.partition}" if ask.partition else "no partition of this cluster"
        message = f"{which} takes {_request(ask)} ({'; '.join(reasons[:4])})"
        yield Refusal("no-partition", message, "muster queues shows the partitions and their nodes", "partitions")


def _known_partition(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    names = [partition.name for partition in cluster.partitions]
    for name in (ask.partition or "").split(","):
        if name and name not in names:
            message = f"this cluster has no partition {name} (its partitions: {_some(names)})"
            yield Refusal("unknown-queue", message, _instead(cluster, ask, name, names), "partitions")


def _instead(cluster: ClusterFacts, ask: Ask, name: str, names: Sequence[str]) -> str:
    """Return what to type for an unknown partition: one that takes this request, else one of a like name."""
    taking = choose_partition(cluster, msgspec.structs.replace(ask, partition=None))
    if taking.partition is not None:
        return f"-p {taking.partition}: {taking.reason}"
    return nearest_hint(name, names)


def _account(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    mine = cluster.associations
    if ask.account is None or not mine or "associations" not in cluster.enforces:
        return
    names = list(dict.fromkeys(association.account for association in mine))
    if ask.account.lower() not in {name.lower() for name in names}:
        message = f"the account {ask.account} is not yours on this cluster (yours: {_some(names)})"
        yield Refusal("unknown-account", message, f"--account {names[0]}", "request", accepted={"account": names[0]})


def _qos(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    name = qos_of(cluster, ask)
    names = [qos.name for qos in cluster.qos]
    if name is None or not names:
        return
    if name not in names:
        message = f"this cluster has no QOS {name} (its QOS: {_some(names)})"
        yield Refusal("unknown-queue", message, nearest_hint(name, names), "qos")
        return
    mine = associations_of(cluster, ask) if account_of(cluster, ask) else cluster.associations or ()
    allowed = list(dict.fromkeys(name for association in mine for name in association.qos))
    if allowed and name not in allowed and {"qos", "associations"} & set(cluster.enforces):
        message = f"the QOS {name} is not yours on this cluster (yours: {_some(allowed)})"
        yield Refusal("unknown-queue", message, f"--qos {allowed[0]}", "qos")
    qos = cluster.qos_named(name)
    if qos is not None and "RequiresReservation" in qos.flags and "reservation" not in ask.flags:
        message = f"the QOS {name} takes jobs of a reservation only"
        yield Refusal("closed-queue", message, "--sbatch=--reservation=NAME, or another QOS (-q)", f"qos.{name}", name)


def _features(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    features = list(dict.fromkeys(feature for kind in cluster.kinds for feature in kind.features))
    if not cluster.kinds:
        return
    for word in sorted(words_of_constraint(ask.constraint)):
        if word not in features:
            message = f"no node of this cluster has the feature {word!r}"
            hint = nearest_hint(word, features) if features else "omit --constraint: its nodes have no features"
            yield Refusal("feature", message, hint, "request.features", accepted={"constraint": None})


def _array(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield an array, be it that of a table's rows, whose numbers are higher than this cluster counts."""
    indices = array_indices(ask.flags.get("array") or "")
    if cluster.array_max is None or not indices or indices[-1] < cluster.array_max:
        return
    most = cluster.array_max - 1
    if not cluster.array_max:
        yield Refusal("array-max", "this cluster takes no arrays (MaxArraySize is 0)", "a job for each task", "request")
        return
    message = f"the array's highest number is {indices[-1]}, but this cluster counts up to {most} (MaxArraySize)"
    hint = f"several jobs, each with numbers up to {most}; a table of --sweep is split into files of {most} rows"
    yield Refusal("array-max", message, hint, "request", limit=most)


def _segment(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield a segment that does not divide the nodes of a job; Slurm ignores segments and switches elsewhere.

    From 26.05 on, a segment of more nodes than the job has is ignored.
    """
    segment = ask.flags.get("segment") or ""
    if cluster.topology != "topology/block" or not segment.isdigit() or not int(segment):
        return
    version = re.match(r"(\d+)\.(\d+)", cluster.version)
    is_ignored = (version is None or (int(version[1]), int(version[2])) >= (26, 5)) and int(segment) > ask.nodes
    if ask.nodes % int(segment) and not is_ignored:
        nodes = max(ask.nodes // int(segment), 1) * int(segment)
        message = f"--segment={segment} does not divide {ask.nodes} nodes"
        yield Refusal("segment", message, f"-N {nodes}, or another --segment", "partitions")


def _closed(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield why this user, account or QOS may not use a partition, and what to type where that is known."""
    name = partition.name
    for words, hint in _why_closed(cluster, partition, ask):
        yield Refusal("closed-queue", f"{name} {words}", hint, f"partitions.{name}", name)


def _why_closed(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[tuple[str, str]]:
    account, qos = account_of(cluster, ask), qos_of(cluster, ask)
    if not partition.takes_jobs:
        yield "takes no new jobs now", ""
    if partition.submit_hosts is not None and cluster.host and cluster.host not in partition.submit_hosts:
        yield f"takes jobs from the hosts {_some(partition.submit_hosts)} only, and this is {cluster.host}", ""
    if partition.needs_reservation and "reservation" not in ask.flags:
        yield "takes jobs of a reservation only", ""
    if partition.only_root and not _is_root(cluster):
        yield "takes jobs of administrators only", ""
    if partition.groups is not None and _is_outside(partition.groups, cluster):
        yield f"is for the groups {_some(partition.groups)}, and you are in none of them", ""
    if account is not None and not _may(account, partition.accounts, partition.accounts_denied):
        hint = f"its accounts: {_some(partition.accounts)}" if partition.accounts else ""
        yield f"does not take the account {account}", hint
    if account is not None and "associations" in cluster.enforces:
        places = {each.partition for each in associations_of(cluster, ask)}
        if places and "" not in places and partition.name not in places:
            yield f"is closed to the account {account}, which pays in {_some(sorted(places))} only", f"-p {min(places)}"
    if qos is not None and not _may(qos, partition.qos, partition.qos_denied):
        own_qos = {name for association in cluster.associations or () for name in association.qos}
        mine = [each for each in partition.qos or () if each in own_qos]
        hint = f"--qos {mine[0]}" if mine else (f"its QOS: {_some(partition.qos)}" if partition.qos else "")
        yield f"does not take the QOS {qos}", hint


def _is_root(cluster: ClusterFacts) -> bool:
    return "root" in cluster.user_groups


def _is_outside(groups: Sequence[str], cluster: ClusterFacts) -> bool:
    """Return whether this user is in none of these groups, as far as this host knows the user's groups."""
    return bool(cluster.user_groups) and not _is_root(cluster) and not set(groups) & set(cluster.user_groups)


def _may(name: str, allowed: Sequence[str] | None, denied: Sequence[str]) -> bool:
    if allowed is not None:
        return name.lower() in {other.lower() for other in allowed}
    return name.lower() not in {other.lower() for other in denied}


def _others(cluster: ClusterFacts, ask: Ask, name: str) -> str:
    names = [each.name for each in cluster.partitions if each.name != name and not _why_not(cluster, each, ask)]
    return f"these take this job: {_some(names)}" if names else "no other takes this job: muster queues lists all"


def _types(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a type of GPU that no node of the partition has."""
    kinds, name = cluster.kinds_of(partition.name), partition.name
    if not kinds or not ask.gpus_per_node or ask.gpu_type is None:
        return
    if not any(gpus_of(kind, ask.gpu_type) for kind in kinds):
        types = list(dict.fromkeys(gpu_type for kind in kinds for gpu_type, _ in kind.gpus if gpu_type))
        where = [each.partition for each in cluster.kinds if gpus_of(each, ask.gpu_type)]
        hint = f"-p {where[0]}" if where else nearest_hint(ask.gpu_type, types) if types else "omit --gpu-type"
        message = f"{name} has no GPUs of type {ask.gpu_type} (its types: {_some(types) if types else 'it names none'})"
        yield Refusal("gpu-type", message, hint, f"partitions.{name}", name)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# ---------------------------------------------------------------- which partition


class Chosen(msgspec.Struct, frozen=True):
    """The partition for a request, and why; None: no partition takes it."""

    partition: str | None
    reason: str
    is_default: bool = False
    """Whether a job that names no partition gets this one."""


_OF_TRIALS = r"(?i)debug|test|dev|short|interact|quick|express|trial"
_OF_FEW = r"(?i)debug|test|dev|interact|jupyter|visual|viz|maint|admin|transfer|xfer|data|copy"
_TRIAL_S = 4 * 3600


def choose_partition(cluster: ClusterFacts, ask: Ask, *, trial: bool = False, any_nodes: bool = False) -> Chosen:
    """Return the partition that takes this request: the default one where it does, else the one that fits best.

    A partition for trials, or one that is for other work by its name, is taken with `trial` only, or where no other
    takes the job. A job without GPUs goes to nodes without GPUs, unless it does not say which it wants (`any_nodes`).
    """
    refused = {
        partition.name: _why_not(cluster, partition, ask, any_nodes=any_nodes) for partition in cluster.partitions
    }
    taking = [partition for partition in cluster.partitions if not refused[partition.name]]
    if trial:
        short = [partition for partition in taking if _is_for_trials(partition)]
        best = min(short, key=lambda partition: (partition.time_max_s or 0, -partition.nodes), default=None)
        if best is not None:
            longest = f" ({format_walltime(best.time_max_s)} at most)" if best.time_max_s else ""
            return Chosen(best.name, f"for short trials, by its name and limit{longest}")
    default = cluster.default_partition
    if default is not None and not refused[default.name]:
        return Chosen(default.name, "the default partition takes it", is_default=True)
    best = min(taking, key=lambda partition: _cost(cluster, partition, ask), default=None)
    if best is None:
        return Chosen(None, "no partition of this cluster takes it")
    why = f"; {default.name}, the default partition, does not: {refused[default.name]}" if default else ""
    return Chosen(best.name, f"it takes {_request(ask)}{why}")


def _request(ask: Ask) -> str:
    nodes = f"{ask.nodes} node{'s' * (ask.nodes != 1)}"
    kind = f" {ask.gpu_type}" if ask.gpu_type else ""
    gpus = (
        f" with {ask.gpus_per_node}{kind} GPU{'s' * (ask.gpus_per_node != 1)}" if ask.gpus_per_node else " without GPUs"
    )
    return nodes + gpus + (f" for {format_walltime(ask.time_s)}" if ask.time_s else "")


def _is_for_trials(partition: PartitionFacts) -> bool:
    return bool(re.search(_OF_TRIALS, partition.name)) and (
        partition.time_max_s is not None and partition.time_max_s <= 6 * _TRIAL_S
    )


def _cost(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> tuple[object, ...]:
    """Return what makes a partition a worse choice, the gravest first."""
    kind = kind_for(cluster, partition.name, ask)
    return (
        bool(re.search(_OF_FEW, partition.name)),
        how_preempted(cluster, partition) is not None,
        partition.groups is not None or partition.accounts is not None,
        gpus_of(kind, ask.gpu_type) if kind else 0,
        partition.is_exclusive,
        -(kind.nodes if kind else partition.nodes),
        partition.time_max_s or 1 << 40,
    )


def _why_not(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask, *, any_nodes: bool = False) -> str:
    """Return the first reason why a job is kept out of a partition that it does not name; empty where none is known."""
    kinds = cluster.kinds_of(partition.name)
    if partition.takes_jobs and not partition.is_up:
        return f"{partition.name} is down"
    if account_of(cluster, ask) is None and partition.accounts is not None:
        return f"{partition.name} is for the accounts {_some(partition.accounts)}"
    if ask.gpus_per_node and kinds and not any(kind.gpu_count for kind in kinds):
        return f"{partition.name} has no GPUs"
    if not any_nodes and not ask.gpus_per_node and kinds and all(kind.gpu_count for kind in kinds):
        return f"all nodes of {partition.name} have GPUs"
    # The plan asks for other memory than what comes unasked, where it knows how much a node has.
    own_kind = kind_for(cluster, partition.name, ask)
    is_fixed = ask.mem is None and own_kind is not None and own_kind.memory_mib > 0
    broken = (
        refusal
        for bound, refusal in broken_bounds(cluster, partition, ask)
        if not (is_fixed and bound.counts.endswith("mem of a node"))
    )
    judged = (*_closed(cluster, partition, ask), *_types(cluster, partition, ask), *broken)
    return next((refusal.message for refusal in judged), "")
