"""Every number that Slurm holds a job to: of its partition, the partition's nodes, a QOS, an account. Pure.

Each is one `SlurmBound`. There is one comparison with what the job asks for, and one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple, Optional

from muster.errors import Refusal
from muster.policy.given import associations_of, gpus_of, memory_unasked, qos_of
from muster.policy.rules import UNLIMITED_TIME, Ask, nodes_of
from muster.slurm.cluster import Limits
from muster.slurm.cluster_facts import ClusterFacts, PartitionFacts
from muster.units import format_memory, format_walltime


class SlurmBound(NamedTuple):
    """One number that a job may not go beyond."""

    rule: str
    counts: str
    """What is counted: a name of `amounts_of`."""

    number: int
    words: str
    """Whose number it is, with a gap for the number: "the QOS house allows a user {}"."""

    key: str
    is_least: bool = False
    is_waited_for: bool = False
    """Slurm takes a job beyond it, and does not start it before the number or the job changes."""

    is_of_several: bool = False
    """Slurm adds up what the parts of a heterogeneous job count."""


_COLUMNS = {
    "maxwall": ("allows", "time"),
    "maxtres": ("allows a job", "{}"),
    "maxtrespu": ("allows a user", "{}"),
    "maxtrespa": ("allows an account", "{}"),
    "grptres": ("allows all jobs together", "{}"),
    "maxtrespernode": ("allows a node", "{} of a node"),
    "maxtresmins": ("allows a job", "{} minutes"),
    "grptresmins": ("allows all jobs together", "{} minutes in all"),
    "grptresrunmins": ("allows all running jobs together", "{} minutes in all"),
    "grpwall": ("allows all jobs together", "time in all"),
    "mintres": ("is for", "{}"),
    **dict.fromkeys(("maxsubmit", "maxsubmitpu", "maxsubmitpa", "grpsubmit"), ("takes", "job")),
    **dict.fromkeys(("maxjobs", "maxjobspu", "maxjobspa", "grpjobs"), ("runs", "job")),
}
"""What sacctmgr's columns say, and what they count of a TRES."""

_OF_SEVERAL = {"maxtrespu", "maxtrespa", "grptres"}
"""Besides the limits that count jobs. That of one job (maxtres) is held to the sum only where a QOS denies at once."""

_RULES = {"node": "nodes", "gres/gpu": "gpus", "cpu": "cpus", "mem": "mem", "time": "time", "job": "jobs"}


def amounts_of(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> dict[str, tuple[int, str]]:
    """Return what this job gets, with its words, by what is counted; what is not known is not there.

    Of a job that asks for no time, Slurm fits the time to the limits of one job, and holds the default to those of all.
    """
    nodes, gpus, cpus = ask.nodes, ask.gpus_per_node, ask.ntasks_per_node * (ask.cpus_per_task or 1)
    all_gpus = (nodes * gpus, f"{nodes} × {gpus} = {nodes * gpus} GPUs")
    amounts = {
        "job": (1, "one job"),
        "node": (nodes, nodes_of(ask)),
        "cpu": (nodes * cpus, f"{nodes * cpus} CPUs"),
        "gres/gpu": all_gpus,
        f"gres/gpu:{ask.gpu_type}": all_gpus,
        "cpu of a node": (cpus, f"{cpus} CPUs per node"),
        "gres/gpu of a node": (gpus, f"{gpus} GPUs per node"),
    }
    amounts.update(_memory(cluster, partition, ask))
    unasked_s = partition.time_default_s or partition.time_max_s or 60
    for time_s, more in ((ask.time_s, ""), (ask.time_s or unasked_s, " in all")):
        if time_s is None:
            continue
        minutes, unasked = time_s // 60, _UNASKED_TIME.get(ask.time_s, "")
        for name in ("node", "cpu", "gres/gpu"):
            amount, words = amounts[name]
            text = f"{words} × {minutes} minutes = {amount * minutes}{unasked}"
            amounts[f"{name} minutes{more}"] = (amount * minutes, text)
        amounts[f"time{more}"] = (time_s, f"{format_walltime(time_s)}{unasked}")
    # Slurm fits unlimited time to the limits of accounting, but not to that of the partition: there the job waits.
    in_partition = (sys.maxsize, UNLIMITED_TIME) if ask.is_unlimited else amounts.get("time")
    return amounts if in_partition is None else {**amounts, "time in the partition": in_partition}


_UNASKED_TIME = {None: ", where no time is asked for", 0: ", for -t 0 sets no limit"}


def _memory(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the memory of a node that this job gets, and that of all nodes if it asks for memory."""
    if {"mem-per-cpu", "mem-per-gpu"} & ask.flags.keys():
        return
    cpus = ask.ntasks_per_node * (ask.cpus_per_task or 1)
    unasked = None if ask.mem else memory_unasked(cluster, partition, cpus, ask.gpus_per_node)
    if ask.mem is not None and ask.mem.mib:
        yield "mem", (ask.nodes * ask.mem.mib, f"{ask.nodes} × {ask.mem} of memory")
        of_node = ask.mem.mib, f"--mem {ask.mem}"
    elif unasked is not None:
        of_node = unasked.mib * unasked.units, unasked.words
    else:
        mib = memory_of_largest(cluster, partition)
        yield "all mem of a node", (mib, f"all memory of a node ({format_memory(mib)})")
        return
    yield "all mem of a node", of_node
    if unasked is None or unasked.unit != "GPU":  # for how many GPUs the memory suffices is a bound of its own
        yield "mem of a node", of_node


def memory_of_largest(cluster: ClusterFacts, partition: PartitionFacts) -> int:
    """Return what Slurm holds to the limit of a job that asks for no memory, whichever node the job gets."""
    return max((mib for kind in cluster.kinds_of(partition.name) for mib in kind.memories), default=0)


def bounds_of(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[SlurmBound]:
    """Yield every number that holds for this job in this partition."""
    name = partition.name
    lifted = lifted_rules(cluster, ask)
    rows: list[_Row] = [
        ("nodes-max", "node", partition.nodes_max, f"{name} allows {{}}"),
        ("nodes-min", "node", partition.nodes_min, f"{name} is for {{}} or more"),
        ("time-max", "time in the partition", partition.time_max_s, f"{name} allows {{}}"),
    ]
    held = (row for row in rows if row[0] not in lifted)
    for rule, counts, number, words in (*held, *_of_nodes(cluster, partition, ask)):
        if number is not None:
            yield SlurmBound(rule, counts, number, words, f"partitions.{name}", rule == "nodes-min")
    yield from _of_accounting(cluster, partition, ask)


_OF_PARTITION = {"PartitionTimeLimit": "time-max", "PartitionMaxNodes": "nodes-max", "PartitionMinNodes": "nodes-min"}
_Row = tuple[str, str, Optional[int], str]
"""The rule, what is counted, the number (none: no limit is known), and the words of a `SlurmBound`."""


def lifted_rules(cluster: ClusterFacts, ask: Ask) -> set[str]:
    """Return the rules of a partition that do not hold for a job of this QOS."""
    qos = cluster.qos_named(qos_of(cluster, ask) or "")
    return {rule for flag, rule in _OF_PARTITION.items() if qos is not None and flag in qos.flags}


def _of_nodes(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[_Row]:
    """Yield how many nodes there are, and the most that one of them has for a job."""
    name, kinds = partition.name, cluster.kinds_of(partition.name)
    yield "nodes-max", "node", partition.nodes or None, f"{name} has {{}}"
    if not kinds:
        return
    of_type, a_node = f" of type {ask.gpu_type}" if ask.gpu_type else "", f"a node of {name} has"
    most_gpus = max(gpus_of(kind, ask.gpu_type) for kind in kinds)
    fitting = [kind for kind in kinds if gpus_of(kind, ask.gpu_type) >= ask.gpus_per_node]
    if ask.gpus_per_node:
        count = sum(kind.nodes for kind in fitting)
        yield "nodes-max", "node", count or None, f"{name} has {{}} with {ask.gpus_per_node} or more GPUs{of_type}"
    # A cluster without any gres does not count GPUs. A type that is nowhere is a name, not a number.
    is_number = (most_gpus or ask.gpu_type is None) and any(kind.gpu_count for kind in cluster.kinds)
    yield "gpus-max", "gres/gpu of a node", most_gpus if is_number else None, f"{a_node} {{}}{of_type}"
    cpus = max(min(kind.cpus, partition.cpus_per_node_max or kind.cpus) for kind in fitting or kinds)
    memory_mib = max((mib for kind in fitting or kinds for mib in kind.memories), default=0)
    yield "cores-max", "cpu of a node", cpus or None, f"a job has {{}} on a node of {name}"
    of_cpu_mib = partition.memory_per_cpu_max_mib or cluster.memory_per_cpu_max_mib
    if ask.mem is not None and ask.mem.mib:
        counts = [count for kind in fitting for mib, count in kind.memories.items() if not 0 < mib < ask.mem.mib]
        yield "nodes-max", "node", sum(counts) or None, f"{name} has {{}} with {ask.mem} of memory or more"
    usable_mib = min(memory_mib, (of_cpu_mib or memory_mib) * cpus)
    of_cpus = f"{name} gives a job {{}} of a node, {of_cpu_mib} MiB for each of {cpus} CPUs (MaxMemPerCPU)"
    yield "mem-max", "mem of a node", usable_mib or None, of_cpus if usable_mib < memory_mib else f"{a_node} {{}}"
    of_job_mib = partition.memory_per_node_max_mib or cluster.memory_per_node_max_mib
    yield "mem-max", "all mem of a node", of_job_mib, f"{name} gives a job {{}} of a node at most"
    of_gpu_mib = partition.memory_per_gpu_mib or cluster.memory_per_gpu_mib
    if of_gpu_mib and memory_mib and cluster.shares_memory and "mem-per-gpu" not in ask.flags:
        # --mem beside it does not help: 22.05 and 24.11 refuse the job all the same.
        reason = f"each brings {of_gpu_mib} MiB (DefMemPerGPU), unless --sbatch=--mem-per-gpu asks for less"
        yield "gpus-max", "gres/gpu of a node", memory_mib // of_gpu_mib, f"{a_node} memory for {{}}: {reason}"


def _of_accounting(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[SlurmBound]:
    """Yield the numbers of the partition's QOS, the job's QOS, and the account: of each limit the first counts.

    So Slurm has it; a QOS may say that it comes before the partition's. Only DenyOnLimit refuses; else the job waits.
    """
    if "limits" not in cluster.enforces:
        return
    named = [cluster.qos_named(name) for name in (partition.own_qos, qos_of(cluster, ask)) if name]
    order = sorted(filter(None, named), key=lambda qos: "OverPartQOS" not in qos.flags)
    waits = not any("DenyOnLimit" in qos.flags for qos in order)
    of_qos: set[str] = set()
    for qos in order:
        held = _held(cluster, qos.limits, of_qos, waits=waits)
        yield from _of_owner(held, f"the QOS {qos.name}", f"qos.{qos.name}", waits=waits)
        of_qos |= qos.limits.keys()
    # Of a user's two associations with an account, the one of the partition alone is the job's.
    by_partition = {row.partition: row for row in reversed(associations_of(cluster, ask))}
    paying = by_partition.get(partition.name) or by_partition.get("")
    if paying is not None:
        yield from _of_owner(
            _held(cluster, paying.limits, of_qos, waits=waits), f"your account {paying.account}", waits=waits
        )
        for account, limits in paying.above:
            yield from _of_owner(_held(cluster, limits, of_qos, waits=waits), f"the account {account}", waits=waits)


def _held(cluster: ClusterFacts, limits: Limits, of_qos: Collection[str], *, waits: bool) -> dict[str, int]:
    """Return the limits to which Slurm holds a job; `of_qos`: those of a QOS that comes first.

    A QOS that counts the jobs of a user overrides the account.
    """
    held = {}
    for limit, number in limits.items():
        column, _, tres = limit.partition(":")
        is_overruled = not {limit, f"{limit}pu", f"{limit}pa"}.isdisjoint(of_qos)
        # What all jobs together still have: a job has to end within it where Slurm is to be safe, or denies.
        is_left_open = column in {"grptresmins", "grpwall"} and number and waits and "safe" not in cluster.enforces
        if column in _COLUMNS and not is_overruled and not is_left_open and (tres != "mem" or cluster.shares_memory):
            held[limit] = number
    return held


def _of_owner(limits: Limits, owner: str, key: str = "request", *, waits: bool) -> Iterator[SlurmBound]:
    """Yield the numbers of one QOS or account; `waits`: Slurm takes what is beyond them, and does not start it."""
    for limit, number in limits.items():
        column, _, tres = limit.partition(":")
        words, counts = _COLUMNS[column]
        counts, is_least = counts.format(tres), column == "mintres"
        whole = f"{owner} {words} {{}}{' or more' * is_least}{f' now ({column})' if counts == 'job' else ''}"
        is_waited_for = words == "runs" or (waits and words != "takes")
        is_of_several = counts == "job" or column in _OF_SEVERAL or (column == "maxtres" and not waits)
        rule = f"{_RULES.get(tres.partition(':')[0] or counts, tres)}-{'min' if is_least else 'max'}"
        yield SlurmBound(rule, counts, number, whole, key, is_least, is_waited_for, is_of_several)


def broken_bounds(cluster: ClusterFacts, partition: PartitionFacts, ask: Ask) -> Iterator[tuple[SlurmBound, Refusal]]:
    """Yield each number that this job goes beyond, with its sentence."""
    amounts = amounts_of(cluster, partition, ask)
    for bound in bounds_of(cluster, partition, ask):
        amount, words = amounts.get(bound.counts, (bound.number, ""))
        if amount < bound.number if bound.is_least else amount > bound.number:
            message = f"{words}, but {bound.words.format(spelled(bound))}"
            accepted = {"time": spelled(bound)} if bound.counts.startswith("time") else {}
            hint, queue = _hint(bound, ask), bound.key.partition(".")[2]
            yield bound, Refusal(bound.rule, message, hint, bound.key, queue, bound.number, accepted)


def spelled(bound: SlurmBound) -> str:
    """Return the number as a person writes it."""
    if bound.counts.startswith("time"):
        return format_walltime(bound.number)
    return format_memory(bound.number) if "mem" in bound.counts else str(bound.number)


def _hint(bound: SlurmBound, ask: Ask) -> str:
    """Return the options that this number takes."""
    number, counts, words = bound.number, bound.counts, spelled(bound)
    is_of_a_node = counts.endswith(" of a node")
    of_a_node = number if is_of_a_node else number // ask.nodes
    if not number:
        return "omit -g" if counts == "gres/gpu of a node" else "another account (-A) or QOS (-q)"
    if counts.startswith("time"):
        return f"--time {words}"
    if counts == "node":
        return f"-N {number - ask.spares}" if number > ask.spares else "fewer --spares"
    if counts.endswith("mem of a node"):
        return f"--mem {number}M"
    if bound.is_least:
        return f"{words} or more, or another QOS (-q)"
    if counts.startswith("gres/gpu") and "minutes" not in counts and of_a_node:
        return f"-g {of_a_node}"
    if counts in {"cpu", "cpu of a node"} and of_a_node >= ask.ntasks_per_node:
        return f"-c {of_a_node // ask.ntasks_per_node}"
    if " minutes" in counts:
        return "fewer nodes, or a shorter --time"
    return f"{words} at most on {'each node' if is_of_a_node else 'all nodes together'}"


def gives_all_cpus(cluster: ClusterFacts, ask: Ask) -> bool:
    """Return whether a job may have all CPUs of each node: the nodes are alike, and no limit counts CPUs."""
    partition = cluster.partition(ask.partition or "")
    if partition is None:
        return False
    kinds, most = cluster.kinds_of(partition.name), partition.cpus_per_node_max
    counting = [bound for bound in _of_accounting(cluster, partition, ask) if bound.counts.startswith("cpu")]
    is_limited = any(kind.cpus > (most or kind.cpus) for kind in kinds) or not all(bound.is_least for bound in counting)
    return not is_limited and len({(kind.cores, kind.threads) for kind in kinds}) < 2
