"""What this cluster takes, by its own word: the partition for a request, the kind of node, and what is refused. Pure.

A partition that is asked about is judged by one table, whether it was named or is to be found. What Slurm did not say
is not judged. The file is long because the table, its rules and the choice by them belong together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from muster.errors import Refusal, nearest_hint
from muster.policy.rules import LEADS_ELSEWHERE, Ask
from muster.policy.topology import topology_refusals
from muster.sites.live import how_preempted
from muster.slurm.cluster_facts import ClusterFacts, KindFacts, PartitionFacts
from muster.units import format_walltime

NAMED_BY_SLURM = frozenset({"partition", "QOS", "GPU type", "account", "feature"})
"""The kinds of names of which Slurm has the last word where it was asked."""

_SLICE = re.compile(r"\d+g\.\d+gb|\d+g$", re.IGNORECASE)
"""How the type of a part of a GPU is named: a100_1g.5gb, h100_3g.40gb, 1g.10gb."""


def is_slice(gpu_type: str) -> bool:
    """Return whether a type of GPU is a part of one (MIG)."""
    return bool(_SLICE.search(gpu_type))


def gpus_of(kind: KindFacts, gpu_type: str | None) -> int:
    """Return how many GPUs of a type a node has; of no type in particular, whole GPUs before slices."""
    if gpu_type is not None:
        return sum(count for name, count in kind.gpus if name == gpu_type)
    return sum(count for name, count in kind.gpus if not is_slice(name)) or kind.gpu_count


def kind_for(cluster: ClusterFacts, partition: str | None, ask: Ask) -> KindFacts | None:
    """Return the kind of node that this job gets: of those that have what it asks for, the one with most nodes.

    A job without GPUs gets one without, where the partition has both.
    """
    name = partition or (cluster.default_partition.name if cluster.default_partition else "")
    kinds = list(cluster.kinds_of(name.partition(",")[0]))
    if partition is None and not any(gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node for kind in kinds):
        kinds = list(cluster.kinds)
    features = words_of_constraint(ask.constraint)
    if features:
        kinds = [kind for kind in kinds if features <= set(kind.features)] or kinds
    fitting = [kind for kind in kinds if gpus_of(kind, ask.gpu_type) >= max(1, ask.gpus_per_node)]
    if not ask.gpus_per_node and ask.gpu_type is None:
        fitting = [kind for kind in kinds if not kind.gpu_count] or kinds
    if not fitting:
        # Of the kind that comes nearest, a refusal then says how much it has.
        return max(kinds, key=lambda kind: (gpus_of(kind, ask.gpu_type), kind.gpu_count, kind.nodes), default=None)
    return max(fitting, key=lambda kind: (kind.nodes, gpus_of(kind, ask.gpu_type)))


def words_of_constraint(constraint: str | None) -> set[str]:
    """Return the features that every node must have; of a list with alternatives, none is known to be needed."""
    text = constraint or ""
    return set(text.split("&")) if re.fullmatch(r"[\w.+:-]+(&[\w.+:-]+)*", text) else set()


# ---------------------------------------------------------------- what is refused


def account_of(cluster: ClusterFacts, ask: Ask) -> str | None:
    """Return the account that pays: the one that was named, else this user's default."""
    if ask.account is not None:
        return ask.account
    return next((association.account for association in cluster.associations or () if association.is_default), None)


def qos_of(cluster: ClusterFacts, ask: Ask) -> str | None:
    """Return the QOS of the job: the one that was named, else the default of its account."""
    if ask.qos is not None:
        return ask.qos
    account = (account_of(cluster, ask) or "").lower()
    mine = [association for association in cluster.associations or () if association.account.lower() == account]
    named = next((association.default_qos for association in mine if association.default_qos), None)
    allowed = list(dict.fromkeys(name for association in mine for name in association.qos))
    if named is not None or not allowed:
        return named
    # Slurm takes the only one, or normal.
    return allowed[0] if len(allowed) == 1 else next((name for name in allowed if name == "normal"), None)


def refusals_here(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield what this cluster refuses in this request, beside the limits that stand in the site's layers."""
    yield from _known_partition(cluster, ask)
    yield from _account(cluster, ask)
    yield from _qos(cluster, ask)
    yield from _features(cluster, ask)
    yield from topology_refusals(cluster, ask)
    partition = _one_partition(cluster, ask)
    if partition is None:
        yield from _any_partition(cluster, ask)
        return
    for rule in (_access, _limited, _nodes_there, _types):
        yield from rule(cluster, partition, ask)


def _one_partition(cluster: ClusterFacts, ask: Ask) -> PartitionFacts | None:
    """Return the one partition of the job: the named one, else the default where nothing leads elsewhere."""
    if ask.partition:
        return cluster.partition(ask.partition)
    return None if cluster.routes or LEADS_ELSEWHERE & ask.flags.keys() else cluster.default_partition


def why_not_default(cluster: ClusterFacts, ask: Ask) -> str:
    """Return why the default partition is closed to this job, where the site may still send it to another one."""
    default = cluster.default_partition
    if default is None or ask.partition or not cluster.routes:
        return ""
    broken = (refusal for rule in (_reached, _limited) for refusal in rule(cluster, default, ask))
    return next((refusal.message for refusal in broken if refusal.rule != "down-queue"), "")


def _any_partition(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal where the site picks the partition, and the nodes of none have what is asked for."""
    if ask.partition or not cluster.kinds:
        return
    reasons = {}
    for each in cluster.partitions:
        broken = (refusal for rule in (_size, _types) for refusal in rule(cluster, each, ask))
        reasons[each.name] = next((refusal.message for refusal in broken if refusal.rule != "only-gpus"), "")
    if reasons and all(reasons.values()):
        words = "; ".join(f"{name}: {why}" for name, why in list(reasons.items())[:4])
        message = f"no partition of this cluster takes {_request(ask)} ({words})"
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
    if ask.qos is None or not cluster.qos:
        return
    names = [qos.name for qos in cluster.qos]
    if ask.qos not in names:
        message = f"this cluster has no QOS {ask.qos} (its QOS: {_some(names)})"
        yield Refusal("unknown-queue", message, nearest_hint(ask.qos, names), "qos")
        return
    account = (account_of(cluster, ask) or "").lower()
    mine = [each for each in cluster.associations or () if not account or each.account.lower() == account]
    allowed = list(dict.fromkeys(name for each in mine for name in each.qos))
    if allowed and ask.qos not in allowed and {"qos", "associations"} & set(cluster.enforces):
        message = f"the QOS {ask.qos} is not yours on this cluster (yours: {_some(allowed)})"
        yield Refusal("unknown-queue", message, f"--qos {allowed[0]}", "qos")


def _features(cluster: ClusterFacts, ask: Ask) -> Iterator[Refusal]:
    features = list(dict.fromkeys(feature for kind in cluster.kinds for feature in kind.features))
    if not cluster.kinds:
        return
    for word in sorted(words_of_constraint(ask.constraint)):
        if word not in features:
            message = f"no node of this cluster has the feature {word!r}"
            hint = nearest_hint(word, features) if features else "omit --constraint: its nodes have no features"
            yield Refusal("feature", message, hint, "request.features", accepted={"constraint": None})


_Rule = Callable[[ClusterFacts, PartitionFacts, Ask], Iterator[Refusal]]


def _closed(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[tuple[str, str]]:
    """Yield why this user, account or QOS may not use a partition, and what to type where that is known."""
    account, qos = account_of(cluster, ask), qos_of(cluster, ask)
    if not partition.takes_jobs:
        yield "takes no new jobs now", ""
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
        places = {each.partition for each in cluster.associations or () if each.account.lower() == account.lower()}
        if places and "" not in places and partition.name not in places:
            yield f"is closed to the account {account}, which pays in {_some(sorted(places))} only", f"-p {min(places)}"
    if qos is not None and not _may(qos, partition.qos, partition.qos_denied):
        own_qos = {name for association in cluster.associations or () for name in association.qos}
        mine = [each for each in partition.qos or () if each in own_qos]
        hint = f"--qos {mine[0]}" if mine else (f"its QOS: {_some(partition.qos)}" if partition.qos else "")
        yield f"does not take the QOS {qos}", hint


def _access(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    key, name = f"partitions.{partition.name}", partition.name
    for words, hint in _closed(cluster, partition, ask):
        others = hint or f"muster queues lists the partitions; {_others(cluster, ask, name)}"
        yield Refusal("closed-queue", f"{name} {words}", others, key, name)


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
    return f"these take this job: {_some(names)}" if names else "no other takes this job"


class _Limit(NamedTuple):
    """One limit, and whose it is."""

    most: int
    owner: str
    key: str
    queue: str = ""

    def refusal(self, rule: str, words: str, hint: str, accepted: Mapping[str, str] = MappingProxyType({})) -> Refusal:
        return Refusal(rule, words, hint, self.key, self.queue, self.most, accepted)


def _limits_here(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> dict[str, _Limit]:
    """Return the limits that hold: the first counts of the partition's QOS, the job's QOS, and its account.

    So Slurm has it; a QOS may say that it comes before the partition's.
    """
    limits: dict[str, _Limit] = {}
    if "limits" not in cluster.enforces:
        return limits
    named = [cluster.qos_named(name) for name in (partition.own_qos, qos_of(cluster, ask)) if name]
    order = sorted(filter(None, named), key=lambda qos: "OverPartQOS" not in qos.flags)
    for qos in order:
        for name, count in qos.limits.items():
            limits.setdefault(name, _Limit(count, f"the QOS {qos.name}", f"qos.{qos.name}", qos.name))
    account = (account_of(cluster, ask) or "").lower()
    mine = [each for each in cluster.associations or () if each.account.lower() == account]
    # Of a user's two associations with an account, the one of the partition alone is the job's.
    association = next((each for name in (partition.name, "") for each in mine if each.partition == name), None)
    if association is not None:
        for name, count in association.limits.items():
            if not {f"{name}pu", f"{name}pa"} & limits.keys():
                limits.setdefault(name, _Limit(count, f"your account {association.account}", "request"))
    return limits


_WHOSE = {"maxtres": "a job", "maxtrespu": "a user", "maxtrespa": "an account", "grptres": "all jobs together"}
_NO_JOBS = {
    "takes": ("maxsubmit", "maxsubmitpu", "maxsubmitpa", "grpsubmit"),
    "runs": ("maxjobs", "maxjobspu", "maxjobspa", "grpjobs"),
}


def _limited(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield what a QOS or the account does not allow, however long the job waits."""
    limits = _limits_here(cluster, partition, ask)
    limit = limits.get("maxwall")
    if limit and ask.time_s is not None and ask.time_s > limit.most:
        longest = format_walltime(limit.most)
        words = f"{format_walltime(ask.time_s)}, but {limit.owner} allows {longest}"
        yield limit.refusal("time-max", words, f"--time {longest}", {"time": longest})
    gpus, cpus = ask.nodes * ask.gpus_per_node, ask.ntasks_per_node * (ask.cpus_per_task or 1)
    gpu_words = f"{ask.nodes} × {ask.gpus_per_node} = {gpus} GPUs"
    for tres, rule, need, words in (
        ("node", "nodes", ask.nodes, f"{ask.nodes} nodes"),
        ("gres/gpu", "gpus", gpus, gpu_words),
        (f"gres/gpu:{ask.gpu_type}", "gpus", gpus, gpu_words),
        ("cpu", "cpus", ask.nodes * cpus, f"{ask.nodes * cpus} CPUs"),
    ):
        for column, whose in _WHOSE.items():
            limit = limits.get(f"{column}:{tres}")
            if limit and need > limit.most:
                allowed = f"{words}, but {limit.owner} allows {whose} {limit.most}"
                yield limit.refusal(f"{rule}-max", allowed, _fewer(tres, limit.most, ask))
        limit = limits.get(f"mintres:{tres}")
        if limit and need < limit.most:
            hint = f"-N {limit.most}" if tres == "node" else f"{limit.most} or more, or another QOS (-q)"
            yield limit.refusal(f"{rule}-min", f"{words}, but {limit.owner} is for {limit.most} or more", hint)
    for tres, need in (("gres/gpu", ask.gpus_per_node), ("cpu", cpus)):
        limit = limits.get(f"maxtrespernode:{tres}")
        if limit and need > limit.most:
            words = f"{need} {tres} of a node, but {limit.owner} allows {limit.most}"
            yield limit.refusal(f"{tres}-of-node", words, _fewer(tres, limit.most * ask.nodes, ask))
    yield from (
        limit.refusal(
            "closed-queue", f"{limit.owner} takes no job now ({column}=0)", "another account (-A) or QOS (-q)"
        )
        for column, limit in _held(limits, "takes")
    )


def _fewer(tres: str, most: int, ask: Ask) -> str:
    """Return what asks for so many on all nodes together."""
    each = most // ask.nodes
    if tres == "node" and most:
        return f"-N {most}"
    if tres.startswith("gres/gpu") and each:
        return f"-g {each}"
    if tres == "cpu" and each >= ask.ntasks_per_node:
        return f"-c {each // ask.ntasks_per_node}"
    return f"{most} or fewer on all nodes together" if most else "another account (-A) or QOS (-q)"


def _held(limits: Mapping[str, _Limit], what: str) -> list[tuple[str, _Limit]]:
    return [(name, limits[name]) for name in _NO_JOBS[what] if name in limits and not limits[name].most]


def gives_all_cpus(cluster: ClusterFacts, ask: Ask) -> bool:
    """Return whether a job may have all CPUs of each node: the nodes are alike, and no limit counts CPUs."""
    partition = cluster.partition(ask.partition or "")
    if partition is None:
        return False
    kinds, most = cluster.kinds_of(partition.name), partition.cpus_per_node_max
    is_limited = most is not None and any(kind.cpus > most for kind in kinds)
    limits = [name for name in _limits_here(cluster, partition, ask) if name.endswith(":cpu")]
    return not is_limited and set(limits) <= {"mintres:cpu"} and len({(kind.cores, kind.threads) for kind in kinds}) < 2


def why_not_now(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[str]:
    """Yield why Slurm takes this job and does not start it: what runs no job now, nodes that are out or reserved."""
    if partition.takes_jobs and not partition.is_up:
        yield f"{partition.name} is down"
    for column, limit in _held(_limits_here(cluster, partition, ask), "runs"):
        yield f"{limit.owner} runs no job now ({column}=0)"
    kinds = [kind for kind in cluster.kinds_of(partition.name) if gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node]
    count, out = sum(kind.nodes for kind in kinds), sum(kind.out for kind in kinds)
    yield from _reserved(cluster, partition, ask, kinds, count - out)
    if count - out < ask.nodes <= count:
        yield f"{out} of the {count} nodes of {partition.name} that have what it asks for are drained or down"


def _reserved(
    cluster: ClusterFacts, partition: PartitionFacts, ask: Ask, kinds: Sequence[KindFacts], usable: int
) -> Iterator[str]:
    """Yield the reservations that begin before this job would end, and leave too few nodes."""
    longest_s = ask.time_s or partition.time_default_s or partition.time_max_s
    for reservation in cluster.reservations if "reservation" not in ask.flags else ():
        taken = sum(kind.reserved.get(reservation.name, 0) for kind in kinds)
        if usable - taken < ask.nodes <= usable and _begins_within(cluster.asked, reservation.start, longest_s):
            words = f"{taken} of the {usable} nodes of {partition.name} are reserved ({reservation.name})"
            yield f"{words} from {reservation.start} to {reservation.end}: it starts then, unless it can end before"


def _begins_within(asked: str, start: str, longest_s: int | None) -> bool:
    """Return whether a job of an hour from now at the latest would run then: so long an answer of Slurm's is kept."""
    try:
        begins, now = datetime.fromisoformat(start), datetime.fromisoformat(asked)
    except ValueError:
        return False
    return longest_s is None or begins < now + timedelta(seconds=longest_s, hours=1)


_OF_PARTITION = {"PartitionTimeLimit": "time-max", "PartitionMaxNodes": "nodes-max", "PartitionMinNodes": "nodes-min"}


def lifted_rules(cluster: ClusterFacts, ask: Ask) -> set[str]:
    """Return the rules of a partition that do not hold for a job of this QOS."""
    qos = cluster.qos_named(qos_of(cluster, ask) or "")
    return {rule for flag, rule in _OF_PARTITION.items() if qos is not None and flag in qos.flags}


def _nodes_there(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    if partition.nodes and ask.nodes > partition.nodes:
        message = f"{ask.nodes} nodes, but {partition.name} has {partition.nodes}"
        hint = f"-N {partition.nodes} or fewer; {_others(cluster, ask, partition.name)}"
        yield Refusal("nodes-max", message, hint, f"partitions.{partition.name}", partition.name, partition.nodes)


def _types(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield why no node of the partition has the GPUs, or why too few nodes have them."""
    kinds = cluster.kinds_of(partition.name)
    if not kinds or not ask.gpus_per_node:
        return
    key, name = f"partitions.{partition.name}", partition.name
    types = list(dict.fromkeys(gpu_type for kind in kinds for gpu_type, _ in kind.gpus if gpu_type))
    largest = max(gpus_of(kind, ask.gpu_type) for kind in kinds)
    if ask.gpu_type is not None and not largest:
        where = [each.partition for each in cluster.kinds if gpus_of(each, ask.gpu_type)]
        hint = f"-p {where[0]}" if where else nearest_hint(ask.gpu_type, types) if types else "omit --gpu-type"
        message = f"{name} has no GPUs of type {ask.gpu_type} (its types: {_some(types) if types else 'it names none'})"
        yield Refusal("gpu-type", message, hint, key, name)
        return
    what = f"GPUs of type {ask.gpu_type}" if ask.gpu_type else "GPUs"
    if ask.gpus_per_node > largest:
        if ask.gpu_type is not None:  # without a type the site's own rule says it
            message = f"{ask.gpus_per_node} {what} per node, but a node of {name} has {largest}"
            yield Refusal("gpus-max", message, f"-g {largest}", key, name, largest)
        return
    fitting = sum(kind.nodes for kind in kinds if gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node)
    if fitting < ask.nodes <= partition.nodes:
        message = f"{ask.nodes} nodes with {ask.gpus_per_node} {what}, but {name} has {fitting} such nodes"
        yield Refusal("nodes-max", message, f"-N {fitting} or fewer", key, name, fitting)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# ---------------------------------------------------------------- which partition


class Chosen(msgspec.Struct, frozen=True):
    """The partition for a request, and why; None: no partition takes it."""

    partition: str | None
    reason: str
    is_default: bool = False
    """Whether a job that names no partition gets this one."""


_OF_TRIALS = re.compile(r"debug|test|dev|short|interact|quick|express|trial", re.IGNORECASE)
_OF_FEW = re.compile(r"debug|test|dev|interact|jupyter|visual|viz|maint|admin|transfer|xfer|data|copy", re.IGNORECASE)
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
    return bool(_OF_TRIALS.search(partition.name)) and (
        partition.time_max_s is not None and partition.time_max_s <= 6 * _TRIAL_S
    )


def _cost(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> tuple[object, ...]:
    """Return what makes a partition a worse choice, the gravest first."""
    kind = kind_for(cluster, partition.name, ask)
    return (
        bool(_OF_FEW.search(partition.name)),
        how_preempted(cluster, partition) is not None,
        partition.groups is not None or partition.accounts is not None,
        gpus_of(kind, ask.gpu_type) if kind else 0,
        partition.is_exclusive,
        -(kind.nodes if kind else partition.nodes),
        partition.time_max_s or 1 << 40,
    )


def _why_not(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask, *, any_nodes: bool = False) -> str:
    """Return the first reason why a partition does not take a request; empty where none is known."""
    ignored = lifted_rules(cluster, ask) | ({"only-gpus"} if any_nodes else set())
    broken = (refusal for rule in _JUDGES for refusal in rule(cluster, partition, ask))
    return next((refusal.message for refusal in broken if refusal.rule not in ignored), "")


def _size(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    name = partition.name
    kinds = cluster.kinds_of(name)
    with_gpus = [kind for kind in kinds if kind.gpu_count]
    if ask.gpus_per_node and kinds and not with_gpus:
        yield Refusal("no-gpus", "it has no GPUs", "")
    if not ask.gpus_per_node and with_gpus and len(with_gpus) == len(kinds):
        yield Refusal("only-gpus", "all of its nodes have GPUs", "")
    if ask.gpus_per_node > max((gpus_of(kind, ask.gpu_type) for kind in with_gpus), default=ask.gpus_per_node):
        yield Refusal("gpus-max", f"none of its nodes has {ask.gpus_per_node} GPUs", "")
    if partition.nodes and ask.nodes > partition.nodes:
        yield Refusal("nodes-max", f"it has {partition.nodes} nodes", "")
    if partition.nodes_max is not None and ask.nodes > partition.nodes_max:
        yield Refusal("nodes-max", f"it allows {partition.nodes_max} nodes", "")
    if ask.nodes < partition.nodes_min:
        yield Refusal("nodes-min", f"it is for {partition.nodes_min} nodes or more", "")
    if ask.time_s is not None and partition.time_max_s is not None and ask.time_s > partition.time_max_s:
        yield Refusal("time-max", f"it allows {format_walltime(partition.time_max_s)}", "")
    yield from _cpus_and_memory(kinds, ask)


def _cpus_and_memory(kinds: Sequence[KindFacts], ask: Ask) -> Iterator[Refusal]:
    fitting = [kind for kind in kinds if gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node] or kinds
    cpus = ask.ntasks_per_node * (ask.cpus_per_task or 1)
    if fitting and cpus > max(kind.cpus for kind in fitting):
        yield Refusal("cores-max", f"none of its nodes has {cpus} CPUs", "")
    if fitting and ask.mem is not None and ask.mem.mib > max(kind.memory_mib for kind in fitting):
        yield Refusal("mem-max", f"none of its nodes has {ask.mem}", "")


def _reached(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[Refusal]:
    """Yield why a job that does not name the partition is better kept out of it."""
    for words, _ in _closed(cluster, partition, ask):
        yield Refusal("closed-queue", f"it {words}", "")
    if partition.takes_jobs and not partition.is_up:
        yield Refusal("down-queue", "it is not up", "")
    if account_of(cluster, ask) is None and partition.accounts is not None:
        yield Refusal("closed-queue", f"it is for the accounts {_some(partition.accounts)}", "")


_JUDGES: tuple[_Rule, ...] = (_reached, _size, _limited, _types)
