"""A draft that was written for one site → the same job at another: each change with its reason. Pure.

What one site names and the other does not know (queues, accounts, networks, paths) cannot be kept. The plan of the
target has the last word: what it refuses is changed as its hint says, or asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from muster.facts import Facts
from muster.sites.schema import Profile
from muster.sites.site import Site
from muster.units import Memory, format_walltime, parse_memory_mib, parse_walltime_s
from muster_lint.port.carry_environment import (
    carry_engine,
    carry_image,
    carry_launcher,
    carry_modules,
    carry_mpi,
    carry_places,
    carry_variables,
    find_conda,
)
from muster_lint.port.target import Carried, Route, add_required, is_chosen, node_of, plan_with_repairs, take_new_names
from muster_lint.port.values import Draft, Fate, PortRow


def carry(draft: Draft, target: Site, source: Site | None, facts: Facts, *, account: str | None = None) -> Carried:
    """Return the job as the target wants it, and its plan."""
    way = Route(source, target, account)
    if not way.is_home:
        for step in _STEPS:
            step(draft, way)
    find_conda(draft)
    take_new_names(draft, way)
    add_required(draft, way)
    return plan_with_repairs(draft, way, facts)


# ---------------------------------------------------------------- queues, accounts, features


def _queue(draft: Draft, way: Route) -> None:
    """Carry the queue: partition and QOS are names of one site, but what a queue is for is a request."""
    for field, word, flag in (("partition", "partition", "-p"), ("qos", "QOS", "-q")):
        name = draft.get(field)
        if name is None:
            continue
        selectors = _selectors(way.target.profile)
        reason = f"{flag} {name}: a {word} of {way.here}; {way.there} {selectors}"
        purpose = _purpose(way.source.profile if way.source else None, name)
        if purpose and not draft.get("trial"):
            draft.revise(field, Fate.CHANGED, None, f"{reason}. It is for short trials")
            draft.values["trial"] = [""]
            row = next(row for row in draft.rows if row.field == field)
            draft.replace(row, Fate.CHANGED, "--trial", row.why)
        else:
            draft.revise(field, Fate.CHANGED, None, reason)


def _selectors(profile: Profile) -> str:
    for name, word in (("qos", "QOS"), ("partition", "partition")):
        if is_chosen(profile, name):
            return f"selects by {word}, which the plan chooses"
        if name in (profile.request.required or ()):
            return f"selects by {word}, which you choose"
    return "chooses the queue itself"


def _purpose(profile: Profile | None, name: str) -> bool:
    """Tell whether a queue is for short trials: by its site's profile, else by its name."""
    queue = (profile.partitions.get(name) or profile.qos.get(name)) if profile else None
    if queue is not None and queue.purpose is not None:
        return queue.purpose == "debug"
    return re.search(r"debug|(^|[-_])dev([-_]|$)|(^|[-_])test([-_]|$)", name) is not None


def _account(draft: Draft, way: Route) -> None:
    name = draft.get("account")
    if way.account is not None:
        draft.revise("account", Fate.CHANGED, way.account, "as you gave it")
        return
    if name is None:
        return
    request = way.target.profile.request
    reason = f"{name} is an account of {way.here}"
    if "account" in (request.required or ()):
        example = request.account_example or "ACCOUNT"
        draft.revise("account", Fate.ASKED, example, f"{reason}: put yours of {way.there} here")
    else:
        draft.revise(
            "account", Fate.ASKED, None, f"{reason}; {way.there} bills your default one unless -A names another"
        )


def _features(draft: Draft, way: Route) -> None:
    for field, noun in (("constraint", "a feature"), ("nodelist", "nodes"), ("exclude", "nodes")):
        value = draft.get(field)
        if value is None:
            continue
        known_features = way.target.profile.request.features or ()
        if field == "constraint" and value in known_features:
            continue
        draft.revise(field, Fate.CHANGED, None, f"{value}: {noun} of {way.here}")
    gres = draft.get("gres")
    if gres is not None:
        draft.revise("gres", Fate.ASKED, None, f"{gres}: a resource of {way.here}")
    if draft.get("distribution") == "nopack":
        draft.revise("distribution", Fate.CHANGED, None, f"a word of {way.here}")


_OF_ONE_SITE = {
    "hint": "what counts as a CPU differs from site to site, and the plan knows it",
    "threads-per-core": "what counts as a CPU differs from site to site, and the plan knows it",
    "ntasks-per-core": "what counts as a CPU differs from site to site, and the plan knows it",
    "reservation": "a reservation of one site",
    "licenses": "a licence of one site",
    "dependency": "jobs of one site",
    "wckey": "a key of one site's accounting",
    "clusters": "a cluster of one site",
    "network": "a word for the network of one site",
    "switches": "the switches of one site",
    "core-spec": "cores that one site keeps for itself",
    "gres-flags": "a way to bind that the plan does not need",
    "tmp": "the disk of one site's nodes",
    "cpu-freq": "the clocks of one site's nodes",
    "gpu-freq": "the clocks of one site's nodes",
    "container": "an image of one site",
    "sockets-per-node": "the sockets of one site's nodes",
    "cores-per-socket": "the sockets of one site's nodes",
    "extra-node-info": "the sockets of one site's nodes",
    "mincpus": "the CPUs of one site's nodes",
}


def _flags(draft: Draft, way: Route) -> None:
    """Carry flags that are handed on: those about one site's machines stay behind."""
    forbidden = {rule.flag: rule.reason for rule in way.target.profile.request.forbidden if rule.value is None}
    for flag in list(draft.values.get("sbatch", ())):
        name = flag.removeprefix("--").partition("=")[0]
        if name in _OF_ONE_SITE or name in forbidden:
            reason = _OF_ONE_SITE.get(name) or f"{way.there}: {forbidden[name]}"
            draft.revise_one("sbatch", flag, Fate.CHANGED, None, reason)
    for flag in list(draft.values.get("srun", ())):
        draft.revise_one(
            "srun", flag, Fate.ASKED, None, f"a flag of the step at {way.here}: is it needed at {way.there}?"
        )
    if draft.get("exclusive") is not None and way.target.profile.request.sharing == "exclusive":
        draft.revise("exclusive", Fate.CHANGED, None, f"{way.there} gives whole nodes to every job")


# ---------------------------------------------------------------- sizes


def _gpu_type(draft: Draft, way: Route) -> None:
    """Carry the number of the GPUs: their type is a word of one site."""
    items = (draft.get("gres") or "").split(",")
    typed = next(filter(None, (re.fullmatch(r"gpu:([^:,]+):(\d+)", item) for item in items)), None)
    if typed is None:
        return
    draft.values["gpus_per_node"] = [typed[2]]
    others = ",".join(item for item in items if item != typed[0])
    reason = f"{typed[1]}: a type of {way.here}; the GPUs of {way.there} are those of its queue"
    for row in [row for row in draft.rows if row.field == "gres" and typed[0] in row.now]:
        new = msgspec.structs.replace(
            row, verdict=Fate.CHANGED, now=f"-g {typed[2]}", why=reason, field="gpus_per_node"
        )
        draft.rows[draft.rows.index(row)] = new
    draft.values.pop("gres")
    if others:
        draft.values["gres"] = [others]
        draft.rows.append(PortRow(0, f"--gres {others}", Fate.KEPT, f"--gres {others}", "", "gres"))


def _shape(draft: Draft, way: Route) -> None:
    """Give the same ranks and GPUs on nodes that have more or fewer of them."""
    node = node_of(way.target.profile)
    old_gpus, nodes = draft.number("gpus_per_node") or 0, draft.number("nodes") or 1
    ranks = draft.number("ntasks_per_node")
    has = node.gpus if node else None
    if not old_gpus or not has or ranks not in {None, old_gpus}:
        if old_gpus and has and old_gpus > has:
            draft.revise("gpus_per_node", Fate.ASKED, str(has), f"a node of {way.there} has {has} GPUs")
            if ranks and ranks > has:
                draft.revise("ntasks_per_node", Fate.ASKED, str(has), f"a node of {way.there} has {has} GPUs")
        return
    total = old_gpus * nodes
    whole = _gives_whole_nodes(way.target.profile, nodes)
    if old_gpus <= has and not (whole and old_gpus < has and nodes > 1):
        if way.target.profile.request.gpus == "whole-node" and old_gpus != has:
            draft.revise("gpus_per_node", Fate.CHANGED, str(has), f"{way.there} gives whole nodes of {has} GPUs only")
        return
    new_gpus = max(count for count in range(1, has + 1) if total % count == 0)
    reason = (
        f"{nodes} × {old_gpus} = {total} GPUs: {total // new_gpus} × {new_gpus} of {way.there}, whose nodes have {has}"
    )
    draft.revise("nodes", Fate.CHANGED, str(total // new_gpus), reason)
    idle = f"{has - new_gpus} of {has} GPUs of each whole node are idle, and paid: is another number of ranks right?"
    if whole and new_gpus < has:
        draft.revise("gpus_per_node", Fate.ASKED, str(new_gpus), f"{reason}; {idle}")
    else:
        draft.revise("gpus_per_node", Fate.CHANGED, str(new_gpus), reason)
    _ask_sizes_in_command(draft, nodes, old_gpus)


_SIZE_WORDS = re.compile(
    r"--?(?:\w+[-_.])?(?:(?:num[-_]?|n)?nodes|devices|(?:num[-_]?|n[-_]?)?gpus?|gpus[-_]per[-_]node"
    r"|(?:local[-_])?world[-_]size|nproc[-_]per[-_]node)[= ]\S"
    r"|\b(?:trainer|cluster)\.\w*(?:nodes|devices|gpus)="
    r"|SLURM_(?:JOB_NUM_NODES|NNODES|NTASKS_PER_NODE|GPUS_ON_NODE|GPUS_PER_NODE|TASKS_PER_NODE)\b"
)


def _ask_sizes_in_command(draft: Draft, nodes: int, gpus: int) -> None:
    """Ask about words of the command that speak of nodes and GPUs, where the job has others now."""
    shown = ", ".join(dict.fromkeys(match[0] for match in _SIZE_WORDS.finditer(" ".join(draft.command))))
    if shown:
        reason = f"they were right for {nodes} nodes × {gpus} GPUs: write those of the new job"
        draft.ask(0, f"{shown} …", reason, "in the command")


def _gives_whole_nodes(profile: Profile, nodes: int) -> bool:
    """Tell whether a job of so many nodes pays for all GPUs of each: the site says so, or each queue that takes it."""
    if profile.request.sharing == "exclusive" or profile.request.gpus == "whole-node":
        return True
    queues = [
        queue
        for queue in profile.partitions.values()
        if queue.open and queue.gpus and queue.purpose == "production" and nodes <= (queue.nodes_max or nodes)
    ]
    return bool(queues) and all(queue.sharing == "exclusive" for queue in queues)


def _most_nodes(draft: Draft, way: Route) -> None:
    """Ask about more nodes than any queue of the target gives, where the plan names no queue to be held against."""
    profile, nodes = way.target.profile, draft.number("nodes") or 1
    gpus = bool(draft.number("gpus_per_node"))
    fit = [
        queue
        for queue in profile.partitions.values()
        if queue.open and bool(queue.gpus) == gpus and queue.purpose != "transfer"
    ]
    limits = [queue.nodes_max for queue in fit if queue.nodes_max is not None]
    if fit and len(limits) == len(fit) and nodes > max(limits):
        reason = f"{nodes} nodes, but no queue of {way.there} gives a job more than {max(limits)}"
        draft.revise("nodes", Fate.ASKED, str(max(limits)), reason)


def _cpus(draft: Draft, way: Route) -> None:
    """Give a rank its GPU's share of the target's cores, not of the source's."""
    cpus = draft.number("cpus_per_task")
    node = node_of(way.target.profile, draft)
    if cpus is None or node is None:
        return
    if node.cores_per_gpu and draft.number("gpus_per_node"):
        reason = f"{cpus} CPUs for each rank fit the nodes of {way.here}"
        reason += f"; {way.there} has {node.cores_per_gpu} cores for each GPU"
        draft.revise("cpus_per_task", Fate.CHANGED, None, reason)
    elif node.cores and cpus * (draft.number("ntasks_per_node") or draft.number("gpus_per_node") or 1) > node.cores:
        share = max(1, node.cores // (draft.number("ntasks_per_node") or draft.number("gpus_per_node") or 1))
        draft.revise("cpus_per_task", Fate.CHANGED, str(share), f"a node of {way.there} has {node.cores} cores")


def _memory(draft: Draft, way: Route) -> None:
    text = draft.get("mem")
    if text is None:
        return
    memory, node = way.target.profile.memory, node_of(way.target.profile, draft)
    if memory.policy in {"whole-node", "forbidden", "per-gpu", "explicit"}:
        alternative = {
            "whole-node": "gives all memory of a node",
            "forbidden": "takes no --mem",
            "per-gpu": "gives memory by the GPU, which the plan asks for",
            "explicit": "wants it asked for, and the plan does that",
        }[memory.policy]
        if memory.policy != "explicit" or memory.mem or memory.mem_per_gpu:
            draft.revise("mem", Fate.CHANGED, None, f"{text} is a size of {way.here}; {way.there} {alternative}")
            return
    limit = parse_memory_mib(node.memory_usable) if node and node.memory_usable else (node.memory_mib if node else None)
    mib = Memory.parse(text).mib
    if limit is not None and (mib > limit or mib == 0):
        draft.revise("mem", Fate.CHANGED, f"{limit}M", f"a node of {way.there} gives {limit} MiB at most")
    elif mib == 0:
        draft.revise("mem", Fate.CHANGED, None, f"all memory of a node: what {way.there} gives for it is not known")


def _time(draft: Draft, way: Route) -> None:
    text = draft.get("time")
    if text is None:
        return
    seconds = parse_walltime_s(text)
    longest = _longest(way.target.profile)
    if longest is not None and (seconds is None or seconds > longest):
        reason = f"{text} is more than any queue of {way.there} allows: let the job save, and submit it again"
        draft.revise("time", Fate.CHANGED, format_walltime(longest), reason)


def _longest(profile: Profile) -> int | None:
    ruled_queues = {rule.qos or rule.partition for rule in profile.queue_rules}
    queues = [
        queue
        for group in (profile.partitions, profile.qos)
        for name, queue in group.items()
        if queue.open
        and (not ruled_queues or name in ruled_queues)
        and queue.purpose not in {"debug", "interactive", "test"}
    ]
    limits = [parse_walltime_s(queue.time_max) for queue in queues if queue.time_max]
    known_limits = [limit for limit in limits if limit is not None]
    return max(known_limits) if known_limits and len(known_limits) == len(limits) else None


_STEPS: tuple[Callable[[Draft, Route], None], ...] = (
    _gpu_type,
    _queue,
    _account,
    _features,
    _flags,
    _shape,
    _most_nodes,
    _cpus,
    _memory,
    _time,
    carry_variables,
    carry_modules,
    carry_launcher,
    carry_mpi,
    carry_image,
    carry_engine,
    carry_places,
)
