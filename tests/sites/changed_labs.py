"""Labs like a site, but changed: one change each, drawn from a seed that stands here, so that every run has the same.

A change is what a site does after its documents were read: a partition gets another name, a limit is halved, nodes get
other GPUs. `changed_specs` gives the labs; what Muster makes of them is held against the lab's own Slurm.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from launch.plans import plan
from muster.errors import MusterError
from muster.model.plan import Plan
from muster.units import format_walltime
from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos

from .profiles import SITES, bundled

SEED = 20261123
NUMBER = 60
# Drawn once more, sites and changes, with kinds of change that are not among the first: nothing was repaired before it.
SECOND_SEED = 7300907
SECOND_NUMBER = 20
# Drawn a third time: ten kinds of change out of more, each on a site of its own; nothing was repaired before it.
THIRD_SEED = 20261208
THIRD_NUMBER = 10
# Their profiles name partitions, and a plan of two nodes names one or takes the default.
SITES_OF_SECOND = tuple(name for name in SITES if bundled(name).profile.partitions)
CHANGED_SITES = tuple(name for name in SITES if bundled(name).profile.partitions)[:20]


@dataclass(frozen=True)
class ChangedLab:
    """A lab of a site with one change."""

    site: str
    change: str
    name: str
    """The lab's own."""

    signs: tuple[str, ...] = ()
    """One of these stands in what Muster says of the change; empty: nothing is asked."""

    def __str__(self) -> str:
        return f"{self.site}-{self.change}"


class MadeLab(NamedTuple):
    """The lab with its change, and the request of the site's page."""

    spec: LabSpec
    words: tuple[str, ...]
    typed: tuple[tuple[str, ...], ...]
    """What the administrator types when the lab is up."""


def words_of(name: str) -> tuple[str, ...]:
    """The request of the site's page."""
    page = Path(__file__).resolve().parents[2] / "docs" / "sites" / f"{name}.md"
    line = next(line for line in page.read_text().splitlines() if line.startswith("muster plan "))
    words = shlex.split(line)[2:]
    options = words[: words.index("--as")]
    place = options.index("--site")
    return tuple(options[:place] + options[place + 2 :])


def plan_of_profile(name: str, words: tuple[str, ...]) -> Plan:
    """The plan that rests on the profile alone."""
    return plan(*words, "--", "python", "train.py", site=name)


def _partition_of(name: str, planned: Plan) -> str:
    named = next((each.value for each in planned.directives if each.name == "partition"), None)
    partitions = bundled(name).profile.partitions
    default = next((key for key, queue in partitions.items() if queue.default), next(iter(partitions), "main"))
    return named or default


def _with_partition(spec: LabSpec, name: str, change: Callable[[LabPartition], LabPartition | None]) -> LabSpec:
    changed = [change(each) if each.name == name else each for each in spec.partitions]
    return replace(spec, partitions=tuple(each for each in changed if each is not None))


def _options(spec: LabSpec, name: str, **options: str) -> LabSpec:
    def more(partition: LabPartition) -> LabPartition:
        return replace(partition, options=tuple({**dict(partition.options), **options}.items()))

    return _with_partition(spec, name, more)


def _groups(spec: LabSpec, change: Callable[[HostGroup], HostGroup]) -> LabSpec:
    return replace(spec, groups=tuple(change(group) if group.gpus else group for group in spec.groups))


def _renamed(spec: LabSpec, name: str) -> LabSpec:
    lua = (spec.job_submit_lua or "").replace(f'"{name}"', f'"{name}-new"')
    changed = _with_partition(spec, name, lambda each: replace(each, name=f"{name}-new"))
    return replace(changed, job_submit_lua=lua)


def _removed(spec: LabSpec, name: str) -> LabSpec:
    others = [each for each in spec.partitions if each.name != name]
    lines = (spec.job_submit_lua or "").splitlines()
    if not others:
        return _renamed(spec, name)
    lua = "\n".join(line for line in lines if f'job.partition = "{name}"' not in line)
    return replace(_with_partition(spec, name, lambda _: None), job_submit_lua=lua + "\n")


def _preempting(spec: LabSpec, name: str) -> LabSpec:
    changed = _options(spec, name, PreemptMode="REQUEUE", PriorityTier="1")
    hosts = next(each.hosts for each in spec.partitions if each.name == name)
    urgent = LabPartition("urgent", hosts, False, (("PriorityTier", "10"), ("PreemptMode", "OFF")))
    options = (*spec.options, ("PreemptType", "preempt/partition_prio"), ("PreemptMode", "REQUEUE"))
    return replace(changed, partitions=(*changed.partitions, urgent), options=options)


def _half_gpus(group: HostGroup) -> HostGroup:
    return replace(group, gpus=max(1, group.gpus // 2))


CHANGES: dict[str, Callable[[LabSpec, str], LabSpec]] = {
    "renamed": _renamed,
    "removed": _removed,
    "time-halved": lambda spec, name: _options(spec, name, MaxTime=format_walltime(900)),
    "nodes-halved": lambda spec, name: _options(spec, name, MaxNodes="1"),
    "gpu-type": lambda spec, _: _groups(spec, lambda group: replace(group, gpu_type="x900")),
    "fewer-gpus": lambda spec, _: _groups(spec, _half_gpus),
    "less-memory": lambda spec, _: _groups(spec, lambda group: replace(group, memory_mib=group.memory_mib // 4)),
    "account-missing": lambda spec, _: replace(spec, accounts=(Account("other"),)),
    "qos-needed": lambda spec, name: replace(_options(spec, name, AllowQos="special"), qos=(*spec.qos, Qos("special"))),
    "preempting": _preempting,
    "more-threads": lambda spec, _: _groups(
        spec, lambda group: replace(group, cpus=group.cpus // group.threads_per_core * 2, threads_per_core=2)
    ),
    "little-memory": lambda spec, name: _options(spec, name, DefMemPerCPU="256"),
}


def _least(spec: LabSpec, name: str, field: str) -> int:
    """The smallest number of a kind of host in the partition."""
    hosts = {host for each in spec.partitions if each.name == name for host in each.hosts}
    return min(int(getattr(group, field)) for group in spec.groups if hosts & {*group.names})


def _state(name: str, state: str) -> tuple[str, ...]:
    return "scontrol", "update", f"PartitionName={name}", f"State={state}"


LATER_CHANGES: dict[str, Callable[[LabSpec, str], LabSpec]] = {
    "partition-down": lambda spec, _: spec,
    "closed-to-account": lambda spec, name: _options(spec, name, AllowAccounts="other"),
    "mem-max": lambda spec, name: _options(spec, name, MaxMemPerNode=str(_least(spec, name, "memory_mib") // 4)),
    "cpus-max": lambda spec, name: _options(spec, name, MaxCPUsPerNode=str(max(1, _least(spec, name, "cpus") // 2))),
    "nodes-min": lambda spec, name: _options(spec, name, MinNodes="4"),
    "only-root": lambda spec, name: _options(spec, name, RootOnly="YES"),
    "needs-reservation": lambda spec, name: _options(spec, name, ReqResv="YES"),
}


def second_labs(seed: int = SECOND_SEED, number: int = SECOND_NUMBER) -> Iterator[ChangedLab]:
    """Yield labs of sites and changes that are both drawn, no pair twice."""
    chance = random.Random(seed)  # noqa: S311  # a seed that stands here
    changes = {**CHANGES, **LATER_CHANGES}
    pairs: list[tuple[str, str]] = []
    while len(pairs) < number:
        pair = chance.choice(SITES_OF_SECOND), chance.choice(sorted(changes))
        pairs += [] if pair in pairs else [pair]
    for site, change in pairs:
        yield ChangedLab(site, change, f"second-{site}")


def _split(spec: LabSpec, name: str) -> LabSpec:
    lua = (spec.job_submit_lua or "").replace(f'"{name}"', f'"{name}-long"')
    old = next(each for each in spec.partitions if each.name == name)
    quick = replace(old, name=f"{name}-quick", options=(*_without(old, "MaxTime"), ("MaxTime", "04:00:00")))
    changed = _with_partition(spec, name, lambda each: replace(each, name=f"{name}-long", default=False))
    return replace(changed, partitions=(*changed.partitions, quick), job_submit_lua=lua)


def _without(partition: LabPartition, key: str) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in partition.options if pair[0] != key)


def _own_qos(spec: LabSpec, name: str, **limits: str) -> LabSpec:
    """The partition gets a QOS of its own, which refuses what is over its limits."""
    qos = Qos("house", (("Flags", "DenyOnLimit"), *limits.items()))
    return replace(_options(spec, name, QoS="house"), qos=(*spec.qos, qos))


def _second_type(spec: LabSpec, name: str) -> LabSpec:
    first = next(group for group in spec.groups if group.gpus)
    more = replace(first, prefix="new-n", gpu_type="x900")
    wider = replace(spec, groups=(*spec.groups, more))
    return _with_partition(wider, name, lambda each: replace(each, hosts=(*each.hosts, *more.names)))


def _other_account(spec: LabSpec, _: str) -> LabSpec:
    first, *others = spec.accounts
    return replace(spec, accounts=(Account("other"), replace(first, users=("bob",)), *others))


def _slices(group: HostGroup) -> HostGroup:
    return replace(group, gpus=7 * group.gpus, gpu_type=f"{group.gpu_type or 'h100'}_1g.10gb")


def _reserve(spec: LabSpec, _: str) -> tuple[str, ...]:
    words = "ReservationName=maintenance StartTime=now+10minutes Duration=4-0 Users=root Nodes=ALL Flags=MAINT"
    return "scontrol", "create", "reservation", *words.split()


def _drain(spec: LabSpec, name: str) -> tuple[str, ...]:
    nodes = next(each.hosts for each in spec.partitions if each.name == name)
    return "scontrol", "update", f"NodeName={','.join(nodes)}", "State=DRAIN", "Reason=repair"


THIRD_CHANGES: dict[str, Callable[[LabSpec, str], LabSpec]] = {
    "split": _split,
    "over-time": lambda spec, name: _options(spec, name, MaxTime="00:20:00", OverTimeLimit="120"),
    "qos-min": lambda spec, name: _own_qos(spec, name, MinTRESPerJob="node=64"),
    "qos-per-user": lambda spec, name: _own_qos(spec, name, MaxTRESPerUser="node=1"),
    "qos-no-jobs": lambda spec, name: _own_qos(spec, name, MaxSubmitJobsPerUser="0"),
    "deny-account": lambda spec, name: _options(spec, name, DenyAccounts=spec.accounts[0].name),
    "second-type": _second_type,
    "hidden": lambda spec, name: _options(spec, name, Hidden="YES"),
    "account-moved": _other_account,
    "few-cpus": lambda spec, name: _options(spec, name, MaxCPUsPerNode="3"),
    "memory-per-gpu": lambda spec, name: _options(spec, name, DefMemPerGPU=str(_least(spec, name, "memory_mib"))),
    "billing": lambda spec, name: _options(spec, name, TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=64"),
    "groups": lambda spec, name: _options(spec, name, AllowGroups="staff"),
    "whole-nodes": lambda spec, name: _options(spec, name, OverSubscribe="EXCLUSIVE"),
    "slices": lambda spec, _: _groups(spec, _slices),
    "features-gone": lambda spec, _: _groups(spec, lambda group: replace(group, features=())),
    "reservation": lambda spec, _: spec,
    "drained": lambda spec, _: spec,
    "inactive": lambda spec, _: spec,
    "nodes-drained": lambda spec, _: spec,
}
ALL_CHANGES = {**CHANGES, **LATER_CHANGES, **THIRD_CHANGES}
SIGNS = {
    "renamed": ("-new", "no partition"),
    "removed": ("no partition",),
    "time-halved": ("15",),
    "nodes-halved": ("node",),
    "gpu-type": ("x900",),
    "fewer-gpus": ("GPU",),
    "less-memory": ("memory", "MiB", "GiB", "G"),
    "account-missing": ("other", "account"),
    "qos-needed": ("special",),
    "split": ("-long", "-quick", "no partition"),
    "over-time": ("20",),
    "qos-min": ("house",),
    "qos-per-user": ("house",),
    "qos-no-jobs": ("house",),
    "deny-account": ("account",),
    "account-moved": ("account",),
    "few-cpus": ("CPU",),
    "memory-per-gpu": ("memory", "--mem", "DefMemPerGPU"),
    "groups": ("group",),
    "slices": ("1g.10gb",),
    "features-gone": ("constraint", "feature"),
    "drained": ("DRAIN", "drain", "closed"),
    "inactive": ("INACTIVE", "inactive", "closed"),
    "nodes-drained": ("drain", "node"),
}
"""Where Slurm refuses the script that rests on the profile alone, Muster's words name the change by one of these."""

TYPED: dict[str, Callable[[LabSpec, str], tuple[str, ...]]] = {
    "partition-down": lambda _, name: _state(name, "DOWN"),
    "reservation": _reserve,
    "drained": lambda _, name: _state(name, "DRAIN"),
    "inactive": lambda _, name: _state(name, "INACTIVE"),
    "nodes-drained": _drain,
}


def third_labs(seed: int = THIRD_SEED, number: int = THIRD_NUMBER) -> Iterator[ChangedLab]:
    """Yield labs of sites and changes that are both drawn, no site and no change twice."""
    chance = random.Random(seed)  # noqa: S311  # a seed that stands here
    changes = {**CHANGES, **THIRD_CHANGES}
    sites = chance.sample(SITES_OF_SECOND, number)
    for site, change in zip(sites, chance.sample(sorted(changes), number)):
        yield ChangedLab(site, change, f"third-{site}", SIGNS.get(change, ()))


def changed_labs(seed: int = SEED, number: int = NUMBER) -> Iterator[ChangedLab]:
    """Yield the labs: three changes for each site, each change as often as the others."""
    chance = random.Random(seed)  # noqa: S311  # a seed that stands here
    order = [change for _ in range(-(-number // len(CHANGES))) for change in chance.sample(list(CHANGES), len(CHANGES))]
    for place, change in enumerate(order[:number]):
        yield ChangedLab(CHANGED_SITES[place % len(CHANGED_SITES)], change, f"changed-{place}")


def header_of(words: tuple[str, ...], site: str) -> str | None:
    """The script that rests on the profile alone; None: the profile itself refuses it."""
    from muster.render.script import job_script

    try:
        return job_script(plan_of_profile(site, words))
    except MusterError:
        return None
