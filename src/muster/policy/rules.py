"""What a site refuses, found before its scheduler does: each rule is one function of the table below. Pure.

A rule speaks only where the profile has a fact for it; what is not known is not checked.
The file is long because all rules share one table, and what the queue and the kind of node of a request are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from muster.errors import Refusal
from muster.policy.masks import core_list, threads_counted
from muster.policy.queues import gpu_types_of, kind_of, kind_of_account, kind_of_constraint, kinds_in, longest_s
from muster.sites.schema import Fact, Forbidden, NodeKind, Profile, Queue
from muster.sites.site import SAID_HERE, Site
from muster.units import Memory, format_walltime, parse_memory_mib, parse_walltime_s

_MOST_EXAMPLES = 6
"""Queues that one hint names."""


class Ask(msgspec.Struct, frozen=True):
    """A job as it would be submitted, after the site's defaults; None: not asked for."""

    nodes: int = 1
    spares: int = 0
    """How many of the nodes have no ranks."""
    gpus_per_node: int = 0
    gpu_type: str | None = None
    ntasks_per_node: int = 1
    cpus_per_task: int | None = None
    time_s: int | None = None
    is_unlimited: bool = False
    """Whether the request asks for a time without a limit: -t 0, -t infinite."""

    mem: Memory | None = None
    partition: str | None = None
    qos: str | None = None
    account: str | None = None
    constraint: str | None = None
    launcher: str | None = None
    image: str | None = None
    modules: tuple[str, ...] = ()
    flags: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """Every other flag of the header, by long name without hyphens."""

    node: str | None = None
    """The kind of node, where Slurm shows which it is."""


LEADS_ELSEWHERE = frozenset({"reservation", "nodelist"})
"""Flags with which a job that names no partition may get another one than the default."""

UNLIMITED_TIME = "unlimited time is asked for"
"""How a refusal names the time of a job that asks for no limit."""

Rule = Callable[[Profile, Ask], Iterator[Refusal]]


def refusals(profile: Profile, ask: Ask, *, is_counted: bool = False) -> Iterator[Refusal]:
    """Yield everything that this site would refuse in this request, in the order of the table.

    `is_counted`: Slurm says how many nodes there are, so the profile's number is not asked.
    """
    for rule in RULES:
        if not (is_counted and rule is _nodes_there):
            yield from rule(profile, ask)


def node_of(profile: Profile, ask: Ask) -> tuple[str, NodeKind]:
    """Return the kind of node that this job gets; an empty one where none is known."""
    name = ask.node or kind_of(
        profile,
        partition=ask.partition,
        qos=ask.qos,
        constraint=ask.constraint,
        account=ask.account,
        gpu_type=ask.gpu_type,
        gpus=ask.gpus_per_node,
        cpus=ask.ntasks_per_node * (ask.cpus_per_task or 0),
    )
    return name or "", profile.nodes.get(name or "", NodeKind())


def _queues(profile: Profile, ask: Ask) -> Iterator[tuple[str, str, Queue]]:
    """Yield the partition and the QOS of a job: what was named, else the one that Slurm takes unasked.

    A constraint or an account that selects another kind of node selects another queue with it.
    """
    selected = kind_of_constraint(profile, ask.constraint) or kind_of_account(profile, ask.account)
    is_led = bool(LEADS_ELSEWHERE & ask.flags.keys())
    for kind, queue_name in (("partitions", ask.partition), ("qos", ask.qos)):
        known_queues: Mapping[str, Queue] = getattr(profile, kind)
        defaults = (
            default_name
            for default_name, queue in known_queues.items()
            if queue.default and selected in {None, *kinds_in(queue)} and not (is_led and kind == "partitions")
        )
        name = queue_name or next(defaults, "")
        if name in known_queues:
            yield kind, name, known_queues[name]


def say_origin(site: Site, refusal: Refusal) -> str:
    """Return the document or the file behind a refusal; empty where the demand is Muster's own."""
    origin = site.origin(refusal.key)
    is_demand = refusal.rule.startswith("required-")
    return "" if is_demand and origin.source is not None and not site.says(refusal.key) else origin.words()


def doubt_of(site: Site, refusal: Refusal) -> str:
    """Return why the profile's refusal is a warning and no more; empty where the refusal stands."""
    source = site.origin(refusal.key).source
    if source is None:
        return ""
    if refusal.key.endswith(".nodes"):
        return "the number is not the site's own" if source.trust != "D" else ""
    section, _, rest = refusal.key.partition(".")
    is_of_time = section == "partitions" and rest.endswith(".time_max")
    # Where accounting gave no QOS, the limit may be one of a QOS.
    partition = site.cluster.partition(rest.removesuffix(".time_max")) if site.cluster and site.cluster.qos else None
    if is_of_time and partition is not None and partition.time_max_s is None:
        return f"{SAID_HERE}: {partition.name} has no limit of time"
    return ""


def _required(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    values = {
        "account": ask.account,
        "partition": ask.partition,
        "qos": ask.qos,
        "constraint": ask.constraint,
        "time": ask.time_s,
        "nodes": ask.nodes,
        "cpus-per-task": ask.cpus_per_task,
        "mem": ask.mem or ask.flags.get("mem-per-gpu") or ask.flags.get("mem-per-cpu"),
        "gpus": ask.gpus_per_node or None,
    }
    for name in profile.request.required or ():
        if values[name] is None:
            example = ", ".join(_examples(profile, name, ask))
            key = f"request.required.{name}"
            reason = "" if sentence_of(profile, key) else _reason_of(profile, key)
            yield Refusal(
                f"required-{name}",
                f"{_who_wants(profile, key)} --{name}{reason and f': {reason}'}",
                f"give --{name} {name.upper()}{f', such as {example}' if example else ''}, or once in "
                f'~/.config/muster/config.toml: {name} = "{name.upper()}"',
                key,
            )


def _examples(profile: Profile, name: str, ask: Ask) -> list[str]:
    """Return values that this option may take at the site: for a job with GPUs, queues that have some."""
    if name == "account":
        return [profile.request.account_example] if profile.request.account_example else []
    queues = {"partition": profile.partitions, "qos": profile.qos}.get(name, {})
    return [each for each, queue in queues.items() if queue.gpus != 0 or not ask.gpus_per_node][:_MOST_EXAMPLES]


def sentence_of(profile: Profile, key: str) -> str | None:
    """Return the sentence of the source that a rule of the profile rests on; None: the rule is Muster's own caution."""
    fact = profile.facts.get(key)
    return fact.says if isinstance(fact, Fact) else None


def _reason_of(profile: Profile, key: str) -> str:
    """Return the reason that the profile gives for a rule, or for the table of the rule."""
    facts = (profile.facts.get(place) for place in (key, key.rpartition(".")[0]))
    return next((fact.reason for fact in facts if isinstance(fact, Fact) and fact.reason), "")


def _who_wants(profile: Profile, key: str) -> str:
    return f"{profile.name} wants" if sentence_of(profile, key) else f"at {profile.name} Muster wants"


def _forbidden(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    named = {"mem": ask.mem, "partition": ask.partition, "qos": ask.qos, "nodelist": ask.flags.get("nodelist")}
    flags = {**ask.flags, **{flag: str(value) for flag, value in named.items() if value is not None}}
    for number, rule in enumerate(profile.request.forbidden):
        said_by_memory = (rule.flag, rule.value) == ("mem", "0") and profile.memory.zero_allowed is False
        if rule.flag in flags and rule.value in {None, flags[rule.flag]} and not said_by_memory:
            value = f"={rule.value}" if rule.value else ""
            hint = f"use {rule.instead}" if rule.instead else "omit it"
            yield Refusal(
                "forbidden-flag",
                f"--{rule.flag}{value}: {rule.reason}",
                hint,
                f"request.forbidden.{number}",
                accepted=_instead_of(rule),
            )


def _instead_of(rule: Forbidden) -> dict[str, str | None]:
    """Return the option that stands in for a forbidden flag; the flag without a value where the profile names none."""
    whole_flag = re.fullmatch(r"--([a-z-]+)=(\S+)", rule.instead or "")
    return {whole_flag[1]: whole_flag[2]} if whole_flag else {rule.flag: None}


def _with(
    option: str, value: str | None, rule: str, message: str, key: str, queue: str = "", limit: int | None = None
) -> Refusal:
    """Return the refusal after which the option, with this value or without any, would be accepted."""
    hint = f"--{option} {value}" if value else f"omit --{option}"
    return Refusal(rule, message, hint, key, queue, limit, {option: value})


def _renamed_queue(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for kind, word, name in (("partitions", "partition", ask.partition), ("qos", "QOS", ask.qos)):
        known_queues = getattr(profile, kind)
        if name in profile.queues_renamed and name not in known_queues:
            new = profile.queues_renamed[name]
            message = f"the {word} {name} is gone: it is {new} now"
            yield Refusal("renamed-queue", message, f"use {new}", f"queues_renamed.{name}")


def _open_queue(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for kind, name, queue in _queues(profile, ask):
        if not queue.open:
            reason = queue.notes[0] if queue.notes else "on request only"
            hint = f"another queue; --site-set {kind}.{name}.open=true where it is open to you"
            yield Refusal("closed-queue", f"{name} is not open: {reason}", hint, f"{kind}.{name}.open")


def _nodes_of_queue(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for kind, name, queue in _queues(profile, ask):
        if queue.nodes_max is not None and ask.nodes > queue.nodes_max:
            message = f"{nodes_of(ask)}, but {name} allows {queue.nodes_max}"
            key = f"{kind}.{name}.nodes_max"
            yield Refusal("nodes-max", message, f"-N {queue.nodes_max}", key, name, queue.nodes_max)
        if queue.nodes_min is not None and ask.nodes < queue.nodes_min:
            message = f"{ask.nodes} nodes, but {name} is for {queue.nodes_min} or more"
            key = f"{kind}.{name}.nodes_min"
            yield Refusal("nodes-min", message, f"-N {queue.nodes_min}", key, name, queue.nodes_min)
    if not any(_queues(profile, ask)):
        yield from _nodes_of_any(profile, ask)


def nodes_of(ask: Ask) -> str:
    """Return the nodes of a job in words."""
    return f"{ask.nodes} node{'s' * (ask.nodes != 1)}{f' ({ask.spares} spare)' if ask.spares else ''}"


def _nodes_of_any(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Where the site itself picks the partition by the GPUs: no partition that may be picked takes so many nodes."""
    fit = {
        name: queue
        for name, queue in profile.partitions.items()
        if queue.open and (queue.gpus != 0 or not ask.gpus_per_node)
    }
    largest = max(fit, key=lambda name: fit[name].nodes_max or ask.nodes, default="")
    limit = fit[largest].nodes_max if largest else None
    if limit is not None and ask.nodes > limit:
        message = f"{nodes_of(ask)}, but {largest} allows {limit}"
        yield Refusal("nodes-max", message, f"-N {limit}", f"partitions.{largest}.nodes_max", largest, limit)


def _nodes_there(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of more nodes than the queue has; a queue that does not say has all nodes of its kinds."""
    if any(refusal.rule == "nodes-max" for refusal in _nodes_of_queue(profile, ask)):
        return
    for kind, name, queue in _queues(profile, ask):
        types = {None, ask.gpu_type}
        kinds = [each for each in kinds_in(queue) if ask.gpu_type is None or profile.nodes[each].gpu_type in types]
        counts = [count for each in kinds if (count := profile.nodes[each].nodes) is not None]
        key, count = f"{kind}.{name}.nodes", queue.nodes if len(kinds) == len(kinds_in(queue)) else None
        if count is None and kinds and len(counts) == len(kinds):
            key, count = f"nodes.{kinds[0]}.nodes", sum(counts)
        if count is not None and ask.nodes > count:
            of_kind = f" of kind {' and '.join(kinds)}" if len(kinds) < len(kinds_in(queue)) else ""
            message = f"{nodes_of(ask)}, but {name} has {count}{of_kind}"
            yield Refusal("nodes-max", message, f"-N {count}", key, name, count)


def _is_longer(ask: Ask, longest_s: int) -> bool:
    """Return whether the job asks for more time; one that asks for no time gets what the queue gives."""
    return ask.is_unlimited or (ask.time_s is not None and ask.time_s > longest_s)


def _asked_time(ask: Ask) -> str:
    return UNLIMITED_TIME if ask.is_unlimited or ask.time_s is None else format_walltime(ask.time_s)


def _time_of_queue(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for kind, name, queue in _queues(profile, ask):
        longest = longest_s(queue, ask.nodes, ask.nodes * ask.gpus_per_node)
        if longest is not None and _is_longer(ask, longest):
            size = f" for {ask.nodes} nodes" if queue.time_by_nodes else ""
            message = f"{_asked_time(ask)}, but {name} allows {format_walltime(longest)}{size}"
            key = f"{kind}.{name}.time_max"
            yield _with("time", format_walltime(longest), "time-max", message, key, name, longest)
        budget = queue.node_minutes_max
        if ask.time_s is not None and budget is not None and ask.nodes * ask.time_s > budget * 60:
            equation = f"{ask.nodes} nodes × {ask.time_s // 60} minutes = {ask.nodes * ask.time_s // 60} node-minutes"
            key, message = f"{kind}.{name}.node_minutes_max", f"{equation}, but {name} allows {budget}"
            longest_here = format_walltime(budget * 60 // ask.nodes)
            yield _with("time", longest_here, "node-minutes", message, key, name, budget)


def _time_of_site(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a time that is shorter or longer than any job may ask for, or shorter than its queue's."""
    shortest = [("request.time_min", "", profile.request.time_min)]
    shortest += [(f"{kind}.{name}.time_min", name, queue.time_min) for kind, name, queue in _queues(profile, ask)]
    for key, name, limit in shortest:
        least = parse_walltime_s(limit) if limit else None
        if ask.time_s is not None and least is not None and ask.time_s < least:
            spelled = format_walltime(least)
            message = f"{format_walltime(ask.time_s)}, but {name or profile.name} wants {spelled} or more"
            yield _with("time", spelled, "time-min", message, key, name, least)
    longest = parse_walltime_s(profile.request.time_max) if profile.request.time_max else None
    if longest is not None and _is_longer(ask, longest):
        message = f"{_asked_time(ask)}, but {profile.name} allows {format_walltime(longest)}"
        yield _with("time", format_walltime(longest), "time-max", message, "request.time_max", limit=longest)


def _total_gpus(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a number of GPUs that the queue does not give, on a node or on all nodes together."""
    gpus = ask.nodes * ask.gpus_per_node
    for kind, name, queue in _queues(profile, ask):
        key = f"{kind}.{name}"
        if queue.gpus_max is not None and gpus > queue.gpus_max:
            most = queue.gpus_max
            message = f"{ask.nodes} × {ask.gpus_per_node} = {gpus} GPUs, but {name} allows {most}"
            hint = f"at most {most} on all nodes together (-N, -g)"
            yield Refusal("total-gpus-max", message, hint, f"{key}.gpus_max", name, most)
        if queue.gpus_min is not None and gpus < queue.gpus_min:
            message = f"{gpus or 'no'} GPU{'s' * (gpus > 1)}, but {name} is for jobs with {queue.gpus_min} or more"
            hint = f"-g {queue.gpus_min} or more"
            yield Refusal("total-gpus-min", message, hint, f"{key}.gpus_min", name, queue.gpus_min)
        counts = queue.gpus_per_node
        if counts is not None and ask.gpus_per_node and ask.gpus_per_node not in counts:
            listed = " or ".join(map(str, counts))
            message = f"{ask.gpus_per_node} GPUs of a node, but {name} gives {listed}"
            larger = min((count for count in counts if count > ask.gpus_per_node), default=max(counts))
            yield _with("gpus-per-node", str(larger), "gpus-per-node", message, f"{key}.gpus_per_node", name)
        elif counts is not None and ask.nodes > 1 and 0 < ask.gpus_per_node < max(counts):
            size = f"{ask.gpus_per_node} GPUs on each of {ask.nodes} nodes"
            message = f"{size}, but {name} gives several nodes whole only"
            yield _with("gpus-per-node", str(max(counts)), "gpus-per-node", message, f"{key}.gpus_per_node", name)


def _gpus_of_queue(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for kind, name, queue in _queues(profile, ask):
        if queue.gpus == 0 and ask.gpus_per_node:
            yield Refusal("no-gpus", f"{name} has no GPUs", "omit --gpus-per-node", f"{kind}.{name}.gpus", name, 0)
            return
    kind_name, node = node_of(profile, ask)
    if node.gpus is not None and ask.gpus_per_node > node.gpus:
        message = f"{ask.gpus_per_node} GPUs per node, but a node has {node.gpus}"
        hint = fewer_gpus(ask.nodes, ask.gpus_per_node, node.gpus)
        accepted = {"gpus-per-node": str(node.gpus) if node.gpus else None}
        yield Refusal("gpus-max", message, hint, f"nodes.{kind_name}.gpus", limit=node.gpus, accepted=accepted)


def fewer_gpus(nodes: int, gpus: int, most: int | None) -> str:
    """Return the options that ask for as many GPUs as a node has, on as many more nodes."""
    if not most:
        return "omit --gpus-per-node"
    return f"--gpus-per-node {most}, on {-(-nodes * gpus // most)} nodes (-N {-(-nodes * gpus // most)})"


def _partial_nodes(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    whole = node_of(profile, ask)[1].gpus
    key = "request.whole_nodes" if profile.request.whole_nodes else "request.gpus"
    is_whole = profile.request.whole_nodes or profile.request.gpus == "whole-node"
    if is_whole and whole and ask.gpus_per_node not in {0, whole}:
        is_said = sentence_of(profile, key)
        whole_only = "gives whole nodes only" if is_said else "is asked by Muster for whole nodes only"
        message = f"{ask.gpus_per_node} of {whole} GPUs, but {profile.name} {whole_only}"
        yield _with("gpus-per-node", str(whole), "whole-nodes", message, key, limit=whole)


def _cores(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    kind_name, node = node_of(profile, ask)
    if node.cores is None:
        return
    cpus_per_task = ask.cpus_per_task or 1  # what Slurm gives a task of its own
    unit = threads_counted(profile, node)
    reserved = len(core_list(node.reserved_cores or ""))
    usable = (node.cores - reserved) * unit
    cores_asked = ask.ntasks_per_node * cpus_per_task
    if cores_asked > usable:
        reserved_words = f", for {reserved} belong to the system" if reserved else ""
        product = f"{ask.ntasks_per_node} × {cpus_per_task} = {cores_asked}"
        message = f"{product} CPUs per node, but {usable} can be had{reserved_words}"
        key = f"nodes.{kind_name}.{'reserved_cores' if reserved else 'cores'}"
        each = usable // ask.ntasks_per_node
        name, fitting = ("cpus-per-task", each) if each else ("ntasks-per-node", max(1, usable // cpus_per_task))
        yield _with(name, str(fitting), "cores-max", message, key, limit=usable)
    usual_cores = (node.cores_per_gpu or 0) * ask.gpus_per_node
    if ask.cpus_per_task and node.cores_per_gpu_required and ask.gpus_per_node and cores_asked != usual_cores:
        who = _who_wants(profile, f"nodes.{kind_name}.cores_per_gpu_required")
        message = f"{cores_asked} CPUs for {ask.gpus_per_node} GPUs, but {who} {node.cores_per_gpu} for each"
        usual = str(max(1, usual_cores // ask.ntasks_per_node))
        key = f"nodes.{kind_name}.cores_per_gpu_required"
        yield _with("cpus-per-task", usual, "cores-per-gpu", message, key, limit=usual_cores)


def _memory(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    if ask.mem is None:
        return
    if profile.memory.zero_allowed is False and ask.mem.mib == 0:
        yield _with("mem", profile.memory.mem, "mem-zero", "--mem=0 is refused here", "memory.zero_allowed")
    kind, node = node_of(profile, ask)
    if node.gpus == 0 and not profile.partitions:  # the site itself finds the node
        kinds = {name: each for name, each in profile.nodes.items() if each.gpus == 0}
        kind = max(kinds, key=lambda name: parse_memory_mib(kinds[name].memory_usable or "0"))
    limit = profile.nodes[kind].memory_usable if kind in profile.nodes else None
    if limit and ask.mem.mib > parse_memory_mib(limit):
        message = f"--mem {ask.mem}, but {limit} of a node can be had"
        key, mib = f"nodes.{kind}.memory_usable", parse_memory_mib(limit)
        yield _with("mem", limit, "mem-max", message, key, limit=mib)


def _account(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of an account that pays for another kind of node, by its suffix."""
    kind, _ = node_of(profile, ask)
    suffixes = profile.request.account_suffix or {}
    paid_kind = kind_of_account(profile, ask.account)
    if paid_kind and kind in suffixes and paid_kind != kind:
        account = str(ask.account)
        right = account.removesuffix(suffixes[paid_kind]) + suffixes[kind]
        message = f"{account!r} pays for nodes of kind {paid_kind}, but the job gets nodes of kind {kind}"
        yield _with("account", right, "account-suffix", message, "request.account_suffix")


def _kinds(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a queue and a constraint that select different kinds of node: no node is both."""
    selected = kind_of_constraint(profile, ask.constraint)
    for kind, name, queue in _queues(profile, ask):
        if selected is not None and queue.node is not None and selected not in kinds_in(queue):
            kinds = " and ".join(kinds_in(queue))
            message = f"{name} has nodes of kind {kinds}, but --constraint={ask.constraint} selects {selected}"
            fits = [queue_name for queue_name, queue in getattr(profile, kind).items() if selected in kinds_in(queue)]
            hint = f"for {selected}: {', '.join(fits)}" if fits else "omit one of them"
            yield Refusal("queue-kind", message, hint, f"{kind}.{name}.node")


def _types(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a type of GPU that no node of the queue has."""
    for kind, name, queue in _queues(profile, ask):
        types = gpu_types_of(profile, queue)
        if ask.gpu_type is not None and types and ask.gpu_type not in types:
            there = {
                other_name: gpu_types_of(profile, other)
                for other_name, other in profile.partitions.items()
                if other.open and any(profile.nodes[kind_name].gpus != 0 for kind_name in kinds_in(other))
            }
            message = f"{name} has GPUs of type {' and '.join(types)}, none of type {ask.gpu_type}"
            if there and all(other_types and ask.gpu_type not in other_types for other_types in there.values()):
                listed = (f"{' and '.join(other_types)} ({other})" for other, other_types in there.items())
                message = f"no partition has GPUs of type {ask.gpu_type}; there are {', '.join(listed)}"
            yield Refusal("gpu-type", message, f"--gpu-type {types[0]}", f"{kind}.{name}.node", name)


def _qos_of_partition(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    """Yield a refusal of a QOS that the partition does not take."""
    for kind, name, queue in _queues(profile, ask):
        if kind == "partitions" and queue.qos and ask.qos is not None and ask.qos not in queue.qos:
            message = f"{name} takes jobs of the QOS {' or '.join(queue.qos)}, but this one has {ask.qos}"
            hint, accepted = f"-q {queue.qos[0]}", {"qos": queue.qos[0]}
            yield Refusal("queue-qos", message, hint, f"partitions.{name}.qos", name, accepted=accepted)


def _launcher(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    reason = profile.launch.refused.get(ask.launcher or "")
    if reason is not None:
        hint = "one of: " + ", ".join(profile.launch.allowed or ())
        yield Refusal("launcher", f"{ask.launcher} at {profile.name}: {reason}", hint, f"launch.refused.{ask.launcher}")


def _modules(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for module in ask.modules:
        for name in (module, module.partition("/")[0]):
            if name in profile.modules.renamed:
                new = profile.modules.renamed[name]
                message = f"the module {module} is gone: {new} is there now"
                yield _with("module", new, "renamed-module", message, f"modules.renamed.{name}")
                break


def _image(profile: Profile, ask: Ask) -> Iterator[Refusal]:
    for name, image in profile.images.items():
        if image.gone and ask.image in {image.path, f"site:{name}"}:
            known_images = [f"site:{name}" for name, image in profile.images.items() if not image.gone]
            message = f"the image {ask.image} is gone: {image.reason or 'it is no longer there'}"
            yield Refusal("image-gone", message, f"there are {', '.join(known_images)}", f"images.{name}.gone")


RULES: tuple[Rule, ...] = (
    _required,
    _forbidden,
    _renamed_queue,
    _open_queue,
    _nodes_of_queue,
    _nodes_there,
    _time_of_queue,
    _time_of_site,
    _gpus_of_queue,
    _total_gpus,
    _partial_nodes,
    _cores,
    _memory,
    _account,
    _kinds,
    _types,
    _qos_of_partition,
    _launcher,
    _modules,
    _image,
)
