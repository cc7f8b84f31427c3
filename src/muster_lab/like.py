"""Site profile → the lab that behaves like it: its queues, nodes, accounts and rules. Pure.

Slurm itself queues much that sites refuse, so the limits are enforced at submission (EnforcePartLimits, DenyOnLimit),
and what a site refuses by a rule of its own stands in a generated job_submit.lua.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.policy.masks import core_list, threads_counted
from muster.policy.queues import kinds_in
from muster.sites.schema import NodeKind, Profile, Queue
from muster.units import parse_memory_mib, parse_walltime_s
from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos, walltime_in_slurm

# What a host gets where the profile does not know better.
_CORES = 64
_MEMORY_MIB = 256 * 1024

_SMALL = 16
"""A site of so many nodes is made whole."""


def say_sizes(profile: Profile, lab: LabSpec) -> Iterator[str]:
    """Yield what a lab has of its site, kind by kind, and what of its hosts the profile does not say."""
    sizes = []
    for (name, node), group in zip(profile.nodes.items(), lab.groups):
        of_all = f" of {node.nodes}" if node.nodes else ""
        sizes.append(f"{name}: {group.count}{of_all} nodes")
        made_up = [
            *([] if node.cores else [f"{_CORES} cores"]),
            *([] if node.memory_mib or node.memory_usable else [f"{_MEMORY_MIB // 1024} GiB of memory"]),
        ]
        if made_up:
            yield f"the profile does not say what a node of kind {name} has: here {' and '.join(made_up)}"
    if sizes:
        is_whole = all(node.nodes == group.count for node, group in zip(profile.nodes.values(), lab.groups))
        yield ", ".join(sizes) + ("" if is_whole else " (-N makes as many of each kind, up to what the site has)")


def lab_like(
    profile: Profile,
    *,
    name: str,
    nodes: int | None = None,
    kind: str | None = None,
    other_nodes: int | None = None,
    account: str | None = None,
    slurm: str = "system",
) -> LabSpec:
    """Return the lab of a site: `nodes` hosts of each kind of node, but no more than the site has.

    Without a number: the whole site where it is small, else 4 hosts of its first kind and 2 of each other.
    `kind`: it has `nodes` hosts whatever the site has, and the others have `other_nodes`.
    """
    groups = tuple(_groups(profile, nodes, kind, other_nodes))
    return LabSpec(
        name=name,
        groups=groups,
        partitions=tuple(_partitions(profile, groups)),
        accounting=True,
        slurm=slurm,
        cluster=profile.name,
        site=profile.name,
        accounts=tuple(_accounts(profile, account)),
        qos=tuple(Qos(queue_name, tuple(_qos_options(queue))) for queue_name, queue in profile.qos.items()),
        cuts_gpus=bool(profile.devices.cut_by_site),
        job_submit_lua=job_submit_lua(profile),
        options=(("EnforcePartLimits", "ALL"), ("SelectTypeParameters", "CR_Core_Memory")),
    )


def _accounts(profile: Profile, account: str | None) -> Iterator[Account]:
    """Yield the account that was asked for, else the site's example; with it those that pay for other kinds of node."""
    first = account or profile.request.account_example or "lab"
    yield Account(first)
    suffixes = tuple((profile.request.account_suffix or {}).values())
    base = next((first.removesuffix(suffix) for suffix in suffixes if first.endswith(suffix)), None)
    for suffix in suffixes if base is not None else ():
        if f"{base}{suffix}" != first:
            yield Account(f"{base}{suffix}")


def _groups(profile: Profile, nodes: int | None, kind: str | None, other_nodes: int | None) -> Iterator[HostGroup]:
    kinds = profile.nodes or {"node": NodeKind()}
    first = kind if kind in kinds else next(iter(kinds))
    counts = [node.nodes for node in kinds.values()]
    is_small = nodes is None and None not in counts and sum(count or 0 for count in counts) <= _SMALL
    for name, node in kinds.items():
        wanted = (nodes or 4) if name == first else other_nodes or nodes or 2
        most = node.nodes if node.nodes is not None and name != kind else wanted
        yield _group(profile, name, node, most if is_small else min(wanted, most))


def _group(profile: Profile, kind: str, node: NodeKind, count: int) -> HostGroup:
    threads = _threads(profile, node)
    reserved = len(core_list(node.reserved_cores)) if node.reserved_cores else 0
    memory = parse_memory_mib(node.memory_usable) if node.memory_usable else node.memory_mib
    constraint = (profile.request.constraint or {}).get(kind, "")
    every_node = [] if profile.request.constraint else list(profile.request.features or ())
    return HostGroup(
        count=count,
        prefix=f"{kind}-n",
        cpus=((node.cores or _CORES) - reserved) * threads,
        gpus=node.gpus or 0,
        gpu_type=node.gpu_type if node.gpu_type is not None else profile.request.gpu_type,
        memory_mib=memory or _MEMORY_MIB,
        threads_per_core=threads,
        features=tuple(dict.fromkeys([*filter(None, constraint.split("&")), *every_node])),
    )


def _threads(profile: Profile, node: NodeKind) -> int:
    """Return the hardware threads of a core as Slurm's node has them there."""
    if profile.request.slurm_cpus == "threads":
        return node.threads_per_core or 1
    return threads_counted(profile, node)


def _partitions(profile: Profile, groups: tuple[HostGroup, ...]) -> Iterator[LabPartition]:
    if not profile.partitions:
        yield LabPartition("main", default=True)
    for name, queue in profile.partitions.items():
        kinds = kinds_in(queue) or (_kind_of(profile, queue),)
        hosts = tuple(
            host for group in groups if group.prefix in {f"{kind}-n" for kind in kinds} for host in group.names
        )
        yield LabPartition(name, hosts, queue.default, tuple(_partition_options(queue)))


def _kind_of(profile: Profile, queue: Queue) -> str | None:
    """Return the first kind of node that has as many GPUs."""
    return next((kind for kind, node in profile.nodes.items() if queue.gpus in {None, node.gpus}), None)


def _partition_options(queue: Queue) -> Iterator[tuple[str, str]]:
    longest = queue.time_max or (queue.time_by_nodes[-1].time_max if queue.time_by_nodes else None)
    if longest:
        yield "MaxTime", walltime_in_slurm(longest)
    if queue.time_default:
        yield "DefaultTime", walltime_in_slurm(queue.time_default)
    if queue.nodes_max:
        yield "MaxNodes", str(queue.nodes_max)
    if queue.nodes_min:
        yield "MinNodes", str(queue.nodes_min)
    if queue.sharing == "exclusive":
        yield "OverSubscribe", "EXCLUSIVE"
    if queue.qos:
        yield "AllowQos", ",".join(queue.qos)


def _qos_options(queue: Queue) -> Iterator[tuple[str, str]]:
    yield "Flags", "DenyOnLimit"
    if queue.time_max:
        yield "MaxWall", walltime_in_slurm(queue.time_max)
    if queue.nodes_max:
        yield "MaxTRESPerJob", f"node={queue.nodes_max}"
    if queue.nodes_min:
        yield "MinTRESPerJob", f"node={queue.nodes_min}"
    if queue.jobs_queued:
        yield "MaxSubmitJobsPerUser", str(queue.jobs_queued)


# ---------------------------------------------------------------- the rules that are the site's own

_LUA = """\
-- Made from the profile of {site}: what the site refuses by rules of its own.
local unset = {{ [slurm.NO_VAL] = true, [slurm.NO_VAL16] = true, [slurm.NO_VAL64] = true }}

local function given(value)
  return value ~= nil and value ~= "" and not unset[value]
end

local function gpus_of(job)
  local text = job.tres_per_node or job.gres or ""
  return tonumber(string.match(text, "gpu[^,]*[:=](%d+)")) or (string.find(text, "gpu") and 1) or 0
end

function slurm_job_submit(job, partitions, uid)
  local function refuse(rule)
    slurm.log_user("%s", rule)
    return slurm.ERROR
  end
{selects}{rules}
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
"""

_FIELDS = {
    "account": "given(job.account)",
    "partition": "given(job.partition)",
    "qos": "given(job.qos)",
    "constraint": "given(job.features)",
    "time": "given(job.time_limit)",
    "nodes": "given(job.min_nodes)",
    "cpus-per-task": "given(job.cpus_per_task)",
    "mem": "(given(job.pn_min_memory) or given(job.mem_per_tres))",
    "gpus": "gpus_of(job) > 0",
}


def job_submit_lua(profile: Profile) -> str:
    """Return the script with which the lab's controller refuses what the site refuses."""
    rules = [f"  if {condition} then return refuse({_lua(text)}) end" for condition, text in _rules(profile)]
    return _LUA.format(site=profile.name, selects=_selects(profile), rules="\n".join(rules))


def _selects(profile: Profile) -> str:
    """Return what the site chooses: the partition where the GPUs select it, the GPUs where nodes come with theirs."""
    lines = []
    by_gpus = any(rule.partition is None and rule.qos is None and rule.when.gpus_min for rule in profile.queue_rules)
    first = next((name for name, queue in profile.partitions.items() if queue.gpus), None)
    if by_gpus and first is not None:
        lines.append(f"  if not given(job.partition) and gpus_of(job) > 0 then job.partition = {_lua(first)} end\n")
    for kind, words in (profile.request.constraint or {}).items():
        partition_name = next((name for name, queue in profile.partitions.items() if kind in kinds_in(queue)), None)
        if partition_name is not None:
            condition = f"not given(job.partition) and job.features == {_lua(words)}"
            lines.append(f"  if {condition} then job.partition = {_lua(partition_name)} end\n")
    default = next((name for name, queue in profile.partitions.items() if queue.default), None)
    if default is not None:
        lines.append(f"  if not given(job.partition) then job.partition = {_lua(default)} end\n")
    if profile.request.gpus == "whole-node":
        with_gpus = {f"job.partition == {_lua(name)} and ": queue.gpus for name, queue in profile.partitions.items()}
        for lua_condition, gpus in (with_gpus or {"": next(iter(profile.nodes.values())).gpus}).items():
            if gpus:
                lines.append(f'  if {lua_condition}gpus_of(job) == 0 then job.tres_per_node = "gres:gpu:{gpus}" end\n')
    return "".join(lines)


def _rules(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the Lua condition under which a job is refused, and the sentence."""
    required: tuple[str, ...] = profile.request.required or ()
    for name in required:
        yield f"not {_FIELDS[name]}", f"{profile.name} wants --{name}"
    yield from _flag_rules(profile)
    yield from _times(profile.request.time_min, profile.request.time_max, profile.name)
    for kind, queues in (("partition", profile.partitions), ("qos", profile.qos)):
        for name, queue in queues.items():
            for condition, text in _queue_rules(queue, name):
                yield f"job.{kind} == {_lua(name)} and {condition}", text
            if kind == "qos":
                naming_condition = f"job.qos == {_lua(name)}" + (" or not given(job.qos)" if queue.default else "")
                yield from ((f"({naming_condition}) and {condition}", text) for condition, text in _sizes(queue, name))
    yield from _kinds_of_qos(profile)
    for node in profile.nodes.values():
        if node.cores_per_gpu_required and node.cores_per_gpu:
            cpus = "(given(job.cpus_per_task) and job.cpus_per_task or 1)"
            tasks = "(given(job.ntasks_per_node) and job.ntasks_per_node or 1)"
            condition = f"gpus_of(job) > 0 and {cpus} * {tasks} ~= {node.cores_per_gpu} * gpus_of(job)"
            yield condition, f"{node.cores_per_gpu} CPUs for each GPU"
    for kind, suffix in (profile.request.account_suffix or {}).items():
        constraint = (profile.request.constraint or {}).get(kind)
        if constraint:
            ends = f"string.sub(job.account, -{len(suffix)}) ~= {_lua(suffix)}"
            yield f"job.features == {_lua(constraint)} and {ends}", f"{suffix} pays for {kind}"


def _kinds_of_qos(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the rule that refuses a QOS of one kind of node on the others."""
    for name, queue in profile.qos.items():
        own_partitions = [
            partition_name
            for partition_name, partition in profile.partitions.items()
            if queue.node in kinds_in(partition)
        ]
        if own_partitions:
            no_own_partition = " and ".join(
                f"job.partition ~= {_lua(partition_name)}" for partition_name in own_partitions
            )
            yield (
                f"job.qos == {_lua(name)} and given(job.partition) and {no_own_partition}",
                f"{name} is for {queue.node} nodes",
            )


def _flag_rules(profile: Profile) -> Iterator[tuple[str, str]]:
    refusals = {(rule.flag, rule.value): rule.reason for rule in profile.request.forbidden}
    if ("mem", None) in refusals:
        yield "given(job.pn_min_memory)", refusals["mem", None]
    if profile.memory.zero_allowed is False or ("mem", "0") in refusals:
        yield "job.pn_min_memory == 0", "--mem=0 is refused"
    if ("gpus-per-task", None) in refusals:
        yield "given(job.tres_per_task) and string.find(job.tres_per_task, 'gpu')", refusals["gpus-per-task", None]


def _sizes(queue: Queue, name: str) -> Iterator[tuple[str, str]]:
    """Yield the sizes that a QOS refuses at once, and not only by waiting for ever."""
    if queue.nodes_max:
        yield f"given(job.min_nodes) and job.min_nodes > {queue.nodes_max}", f"{name} allows {queue.nodes_max} nodes"
    if queue.nodes_min:
        yield f"math.max(job.min_nodes, 1) < {queue.nodes_min}", f"{name} is for {queue.nodes_min} nodes or more"


def _queue_rules(queue: Queue, name: str) -> Iterator[tuple[str, str]]:
    if not queue.open:
        yield "true", f"{name} is not open"
    if queue.gpus == 0:
        yield "gpus_of(job) > 0", f"{name} has no GPUs"
    all_gpus = "math.max(job.min_nodes, 1) * gpus_of(job)"
    if queue.gpus_max:
        yield f"{all_gpus} > {queue.gpus_max}", f"{name} allows {queue.gpus_max} GPUs"
    if queue.gpus_min:
        yield f"{all_gpus} < {queue.gpus_min}", f"{name} is for {queue.gpus_min} GPUs or more"
    if queue.gpus_per_node:
        wrong = " and ".join(f"gpus_of(job) ~= {count}" for count in (0, *queue.gpus_per_node))
        yield wrong, f"{name} gives {' or '.join(map(str, queue.gpus_per_node))} GPUs of a node"
        part = f"gpus_of(job) > 0 and gpus_of(job) < {max(queue.gpus_per_node)}"
        yield f"math.max(job.min_nodes, 1) > 1 and {part}", f"{name} gives several nodes whole only"
    yield from _times(queue.time_min, None, name)
    if queue.node_minutes_max:
        spent = "given(job.time_limit) and math.max(job.min_nodes, 1) * job.time_limit"
        yield f"{spent} > {queue.node_minutes_max}", f"{name} allows {queue.node_minutes_max} node-minutes"
    fewest = 0
    for step in queue.time_by_nodes:
        if step.nodes_max and not step.gpus_max:
            minutes = (parse_walltime_s(step.time_max) or 0) // 60
            size = f"job.min_nodes > {fewest} and job.min_nodes <= {step.nodes_max}"
            yield f"{size} and given(job.time_limit) and job.time_limit > {minutes}", f"{name} allows {step.time_max}"
            fewest = step.nodes_max


def _times(shortest: str | None, longest: str | None, name: str) -> Iterator[tuple[str, str]]:
    """Yield the rules that refuse a time limit outside these two."""
    for limit, compare, words in ((shortest, "<", "wants {} or more"), (longest, ">", "allows {}")):
        if limit:
            minutes = (parse_walltime_s(limit) or 0) // 60
            yield f"given(job.time_limit) and job.time_limit {compare} {minutes}", f"{name} {words.format(limit)}"


def _lua(text: str) -> str:
    """Return `text` as a Lua string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
