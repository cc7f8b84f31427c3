"""What a profile must hold to beyond its shape: names that exist, ranges that are ranges. The error names the line."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from muster.errors import ProfileError, nearest_hint
from muster.images import engine_names, is_engine
from muster.launchers import is_in_profiles, names_in_profiles
from muster.sites.layers import Layer, Merged
from muster.sites.places import Path, spell
from muster.sites.read import Broken, struct_keys, to_profile
from muster.sites.schema import NodeKind, Profile, Queue, QueueRule, SiteVariable, When
from muster.sites.schema_queues import ONE_THREAD, SiteRequest
from muster.sites.site import Site
from muster.sites.trust import trust_of
from muster.units import parse_memory_mib, parse_walltime_s

_FREE_TABLES = ("facts", "unpublished", "sources", "unverified")


def check(merged: Merged, layers: Sequence[Layer]) -> Profile:
    """Return the profile. Raise an error that names the file and line of the first thing that does not fit."""
    profile = to_profile(merged.table)
    if isinstance(profile, Broken):
        raise _error(profile, merged, layers)
    for broken in (*_findings(profile, merged.table), *_trust(profile, merged, layers)):
        raise _error(broken, merged, layers)
    return profile


def _error(broken: Broken, merged: Merged, layers: Sequence[Layer]) -> ProfileError:
    origin = merged.origin(broken.path)
    layer = layers[origin[0]] if origin else layers[-1]
    line = layer.line((*origin[1], *broken.path[len(origin[1]) :])) if origin else None
    return ProfileError(broken.message, layer.file, line=line, key=spell(broken.path) or None, hint=broken.hint)


def _findings(profile: Profile, table: dict[str, Any]) -> Iterator[Broken]:
    yield from _sources(profile, table)
    yield from _keys(profile)
    yield from _nodes(profile)
    yield from _threads(profile)
    yield from _queues(profile)
    yield from _rules(profile)
    yield from _launch(profile)
    yield from _names_of_parts(table)
    yield from _environment(profile.environment)
    yield from _patterns(profile)
    yield from _accounts(profile.request)
    yield from _types_listed(profile)
    yield from _documents(profile)


def _sources(profile: Profile, table: dict[str, Any]) -> Iterator[Broken]:
    for key, fact in profile.facts.items():
        name = fact if isinstance(fact, str) else fact.source
        if name not in profile.sources:
            yield _unknown(("facts", key), "source", name, profile.sources)
    for path, name in _entries(table):
        if path[-1] == "source" and isinstance(name, str) and name not in profile.sources:
            yield _unknown(path[:-1], "source", name, profile.sources)


# An address, a repository at a commit, or the command that asked this cluster itself.
OPENABLE = re.compile(r"https?://[\w.-]+\.\w+|[\w.-]+/[\w.-]+ @[0-9a-f]{7,40}\b|^muster site probe\b")


def _documents(profile: Profile) -> Iterator[Broken]:
    """Yield each source that cannot be opened again, or that was read tomorrow."""
    tomorrow = dt.date.today() + dt.timedelta(days=1)  # noqa: DTZ011  # dates of a profile have no zone
    for name, source in profile.sources.items():
        if not OPENABLE.search(source.at):
            message = f"{source.at!r} names nothing that can be opened again"
            yield Broken(("sources", name, "at"), message, "an address (https://…), or OWNER/NAME @COMMIT, path")
    read: list[tuple[Path, dt.date | None]] = [
        *((("sources", name, "dated"), source.dated) for name, source in profile.sources.items()),
        *((("sources", name, "checked"), source.checked) for name, source in profile.sources.items()),
        *((("unpublished", key), absent.checked) for key, absent in profile.unpublished.items()),
        *((("unverified", number, "checked"), offer.checked) for number, offer in enumerate(profile.unverified)),
    ]
    for path, day in read:
        if day is not None and day > tomorrow:
            yield Broken(path, f"{day} is in the future", "the day on which it was read, or searched for")


def _trust(profile: Profile, merged: Merged, layers: Sequence[Layer]) -> Iterator[Broken]:
    """Yield where a profile claims another trust than its sources allow."""
    if profile.complete and profile.trust != "own":
        hint = 'trust = "own", where every fact rests on documents of the site of the last 18 months'
        yield Broken(("complete",), "complete = true needs the site's own recent documents", hint)
    if profile.trust is None:
        return
    allowed = trust_of(Site(profile, tuple(layers), merged))
    if profile.trust != allowed:
        yield Broken(("trust",), f"is {profile.trust!r}, and the sources make it {allowed!r}", f'trust = "{allowed}"')


def _entries(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each entry of the tables and lists with its place, but nothing of the tables whose names are free."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in entries:
        yield (*path, key), child
        if path or key not in _FREE_TABLES:
            yield from _entries(child, (*path, key))


def _keys(profile: Profile) -> Iterator[Broken]:
    """Yield keys of `facts` and `unpublished` that the schema does not have."""
    top = struct_keys(Profile)
    for table in ("facts", "unpublished"):
        for key in getattr(profile, table):
            first, *rest = key.split(".")
            if first not in top:
                yield _unknown((table, key), "key", first, top)
                continue
            value = getattr(profile, first)
            if rest and isinstance(value, msgspec.Struct) and rest[0] not in struct_keys(type(value)):
                yield _unknown((table, key), "key", rest[0], struct_keys(type(value)))
            if rest and isinstance(value, dict) and rest[0] not in value and table == "facts":
                yield _unknown((table, key), "key", rest[0], value)


def _nodes(profile: Profile) -> Iterator[Broken]:
    for name, node in profile.nodes.items():
        yield from _tables(node, ("nodes", name))
        yield from _memory_of_gpus(profile, name, node)


def _memory_of_gpus(profile: Profile, name: str, node: NodeKind) -> Iterator[Broken]:
    path: Path = ("nodes", name, "mem_per_gpu") if node.mem_per_gpu else ("memory", "mem_per_gpu")
    share = node.mem_per_gpu or profile.memory.mem_per_gpu
    whole_mib = parse_memory_mib(node.memory_usable) if node.memory_usable else node.memory_mib
    if profile.memory.policy not in {"explicit", "per-gpu"}:
        return  # the share is not asked for
    if share and whole_mib and node.gpus and node.gpus * parse_memory_mib(share) > whole_mib:
        product = f"{node.gpus} GPUs × {share} = {node.gpus * parse_memory_mib(share)} MiB"
        message = f"{product}, but a node of kind {name} has {whole_mib} MiB"
        yield Broken(path, message, f'"{whole_mib // node.gpus}M" or less')


def _tables(node: NodeKind, path: Path) -> Iterator[Broken]:
    if node.gpu_numa is not None:
        domains = len(node.numa or ())
        if node.gpus is not None and len(node.gpu_numa) != node.gpus:
            yield Broken((*path, "gpu_numa"), f"has {len(node.gpu_numa)} entries for {node.gpus} GPUs", "one for each")
        if any(domain >= domains for domain in node.gpu_numa):
            yield Broken((*path, "gpu_numa"), f"names a domain beyond the {domains} of `numa`", "they count from 0")
    if node.gpus and node.cores_per_gpu and node.cores and node.gpus * node.cores_per_gpu > node.cores:
        product = f"{node.gpus} GPUs × {node.cores_per_gpu} cores = {node.gpus * node.cores_per_gpu}"
        yield Broken((*path, "cores_per_gpu"), f"{product}, but the node has {node.cores}", "cores, not threads")


def _queues(profile: Profile) -> Iterator[Broken]:
    for kind in ("partitions", "qos"):
        for name, queue in getattr(profile, kind).items():
            yield from _names_of_queue(profile, queue, (kind, name))
    yield from _unreached_nodes(profile)
    defaults = [name for name, queue in profile.partitions.items() if queue.default]
    for name in defaults[1:]:
        hint = "a job that names no partition gets one: omit `default` elsewhere"
        yield Broken(("partitions", name, "default"), f"{defaults[0]} is the default partition too", hint)
    for number, rule in enumerate(profile.queue_rules):
        for noun, name, listed in (("partition", rule.partition, profile.partitions), ("QOS", rule.qos, profile.qos)):
            if name is not None and listed and name not in listed:
                yield _unknown(("queue_rules", number), noun, name, listed)
        queue = profile.partitions.get(rule.partition or "")
        if queue is not None and queue.qos and rule.qos is not None and rule.qos not in queue.qos:
            message = f"{rule.partition} takes jobs of the QOS {' or '.join(queue.qos)}, but the rule names {rule.qos}"
            yield Broken(("queue_rules", number), message, "omit its qos: the partition brings the first")


def _names_of_queue(profile: Profile, queue: Queue, path: Path) -> Iterator[Broken]:
    """Yield each kind of node and each QOS of a queue that the profile does not have."""
    for key, kinds in (("node", filter(None, [queue.node])), ("other_nodes", queue.other_nodes)):
        for kind in kinds:
            if kind not in profile.nodes:
                yield _unknown((*path, key), "kind of node", kind, profile.nodes)
    if queue.qos and path[0] == "qos":
        yield Broken((*path, "qos"), "a QOS has no QOS of its own", "it belongs to a partition")
        return
    for qos in queue.qos:
        if qos not in profile.qos:
            yield _unknown((*path, "qos"), "QOS", qos, profile.qos)


def _unreached_nodes(profile: Profile) -> Iterator[Broken]:
    """Yield a kind of node that no queue has and no constraint selects: nobody gets it."""
    queues = (*profile.partitions.values(), *profile.qos.values())
    used_nodes = {kind for queue in queues for kind in (queue.node, *queue.other_nodes) if kind is not None}
    used_nodes |= set(profile.request.constraint or {})
    for name in profile.nodes if used_nodes else ():
        if name not in used_nodes:
            yield Broken(("nodes", name), f"no partition or QOS has nodes of kind {name}", f'node = "{name}" in one')


def _threads(profile: Profile) -> Iterator[Broken]:
    """Yield an error where Slurm counts threads, Muster cores, and the header does not say so.

    A step would ask for more.
    """
    request = profile.request
    if request.slurm_cpus == "threads" and request.cpus != "threads" and not ONE_THREAD & set(request.sbatch or ()):
        hint = 'sbatch = ["--hint=nomultithread"], or cpus = "threads"'
        yield Broken(("request", "slurm_cpus"), "is 'threads', and the header asks for cores", hint)


def _rules(profile: Profile) -> Iterator[Broken]:
    """Yield each rule that can never be the first that holds, or whose queue does not take what it sends there."""
    for number, rule in enumerate(profile.queue_rules):
        path: Path = ("queue_rules", number)
        earlier = next(
            (index for index, earlier_rule in enumerate(profile.queue_rules[:number]) if _covers(earlier_rule, rule)),
            None,
        )
        if earlier is not None:
            message = f"never matches: rule {earlier + 1} takes all of its jobs"
            yield Broken(path, message, "the narrower rule goes first")
        for low, high in (("nodes_min", "nodes_max"), ("gpus_min", "gpus_max")):
            lower, upper = getattr(rule.when, low), getattr(rule.when, high)
            if lower is not None and upper is not None and lower > upper:
                yield Broken(path, f"never matches: {low} {lower} is above {high} {upper}", "the smaller one first")
        for kind in rule.when.gpu_kinds or ():
            if kind not in profile.nodes:
                yield _unknown(path, "kind of node", kind, profile.nodes)
        queue = profile.qos.get(rule.qos or "") or profile.partitions.get(rule.partition or "")
        if queue is not None and queue.nodes_max is not None and (rule.when.nodes_min or 1) > queue.nodes_max:
            message = (
                f"never matches: it is for {rule.when.nodes_min} nodes or more, but its queue takes {queue.nodes_max}"
            )
            yield Broken(path, message, "a queue for larger jobs")


_LEAST = frozenset({"nodes_min", "gpus_min"})
_MOST = frozenset({"nodes_max", "gpus_max", "all_gpus_max"})
_ANY_OF = frozenset({"launchers", "stacks", "gpu_kinds"})


def _covers(earlier: QueueRule, later: QueueRule) -> bool:
    """Return whether every job of the later rule is one of the earlier rule."""
    return all(_as_wide(name, earlier.when, later.when) for name in When.__struct_fields__)


def _as_wide(name: str, earlier: When, later: When) -> bool:
    wide, narrow = getattr(earlier, name), getattr(later, name)
    if wide is None:
        return True
    if narrow is None:
        return False
    if name in _LEAST:
        return bool(narrow >= wide)
    if name in _MOST:
        return bool(narrow <= wide)
    if name in _ANY_OF:
        return set(narrow) <= set(wide)
    if name == "time_max":
        longest, shorter = parse_walltime_s(wide), parse_walltime_s(narrow)
        return longest is None or (shorter is not None and shorter <= longest)
    return bool(wide == narrow)


def _launch(profile: Profile) -> Iterator[Broken]:
    launch, meeting = profile.launch, profile.rendezvous
    if launch.preferred and launch.allowed and launch.preferred not in launch.allowed:
        yield Broken(("launch", "preferred"), f"{launch.preferred} is not one of `allowed`", "add it there")
    if (meeting.port_low or 0) > (meeting.port_high or 65535):
        yield Broken(("rendezvous", "port_low"), "is above port_high", "low first")
    if meeting.host == "suffix" and not meeting.suffix:
        yield Broken(("rendezvous", "host"), "is 'suffix', but no suffix is given", 'suffix = "i"')
    if meeting.host == "interface" and not meeting.interface:
        yield Broken(("rendezvous", "host"), "is 'interface', but no interface is given", 'interface = "ib0"')


def _names_of_parts(table: dict[str, Any]) -> Iterator[Broken]:
    """Yield each launcher and each engine that neither Muster nor another package has."""
    for path, value in _entries(table):
        if path in {("launch", "allowed"), ("launch", "refused")} or path[-2:] == ("when", "launchers"):
            yield from _unknown_launchers(path, value)
        elif path == ("launch", "preferred"):
            yield from _unknown_launchers(path, [value])
        elif path[0] == "containers" and path[-1] == "engine" and not is_engine(value):
            yield _unknown(path, "container engine", value, engine_names())


def _unknown_launchers(path: Path, names: Iterable[str]) -> Iterator[Broken]:
    for name in names:
        if not is_in_profiles(name):
            yield _unknown(path, "launcher", name, names_in_profiles())


def _environment(variables: Sequence[SiteVariable]) -> Iterator[Broken]:
    for number, variable in enumerate(variables):
        path: Path = ("environment", number)
        if variable.unset and variable.value is not None:
            yield Broken(path, f"{variable.name} is both set and unset", "give `value`, or `unset = true`")
        has_value = variable.value is not None or variable.value_of is not None
        if not variable.unset and not has_value and variable.verdict != "dropped":
            yield Broken(path, f"{variable.name} has no value", "give `value`, or `unset = true`")


def _patterns(profile: Profile) -> Iterator[Broken]:
    detect = profile.detect
    for key, texts in (("hosts", detect.hosts), ("nodes", detect.nodes), ("environment", detect.environment.values())):
        for text in texts:
            yield from _not_a_pattern(("detect", key), text)


def _not_a_pattern(path: Path, text: str) -> Iterator[Broken]:
    try:
        re.compile(text)
    except re.error as error:
        yield Broken(path, f"{text!r} is not a regular expression: {error}", "escape it with \\")


def _accounts(request: SiteRequest) -> Iterator[Broken]:
    pattern, example = request.account_pattern, request.account_example
    mistakes = list(_not_a_pattern(("request", "account_pattern"), pattern or ""))
    yield from mistakes
    if pattern and example and not mistakes and not re.fullmatch(pattern, example):
        message = f"{example} is none of the accounts that account_pattern describes: {pattern}"
        yield Broken(("request", "account_example"), message, "change one of them: the pattern is of whole accounts")


def _types_listed(profile: Profile) -> Iterator[Broken]:
    """Yield a kind of node whose type of GPU is missing from `gres_names`, which lists types."""
    listed = [name for name in profile.request.gres_names or () if name.startswith("gpu:")]
    for name, node in profile.nodes.items():
        if listed and node.gpu_type is not None and f"gpu:{node.gpu_type}" not in listed:
            message = f"lists {', '.join(listed)}, but nodes.{name} has GPUs of type {node.gpu_type}"
            yield Broken(("request", "gres_names"), message, f'add "gpu:{node.gpu_type}"')


def _unknown(path: Path, kind: str, name: str, known_names: Iterable[str]) -> Broken:
    return Broken(path, f"there is no {kind} named {name!r}", nearest_hint(name, sorted(known_names)))
