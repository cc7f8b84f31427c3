"""The rules of a site that a request can break: found before anybody waits, each named with its source. Pure."""

from __future__ import annotations

import re

from muster.errors import RequestError
from muster.job.request import Request
from muster.plan.model import Engine, Shape
from muster.sites.load import Site
from muster.sites.schema import Queue
from muster.units import format_walltime, parse_memory_mib, parse_walltime_s

__all__ = ["check_limits"]


def check_limits(site: Site, request: Request, shape: Shape, engine: Engine) -> None:
    """Refuse what the site's documents say it refuses."""
    if engine is not Engine.SLURM:
        return
    _check_account(site, request)
    _check_forbidden(site, request)
    _check_memory(site, request)
    for kind, name, table in (
        ("partition", request.partition, site.profile.partitions),
        ("qos", request.qos, site.profile.qos),
    ):
        if name is None:
            continue
        _check_known(site, kind, name, table)
        if name in table:
            key = f"{'partitions' if kind == 'partition' else 'qos'}.{name}"
            _check_queue(site, key, f"{kind} {name}", table[name], request, shape)


def _refuse(site: Site, key: str, sentence: str, hint: str) -> None:
    raise RequestError(f"{sentence} ({site.origin(key).words()})", hint=hint)


def _check_account(site: Site, request: Request) -> None:
    pattern = site.profile.request.account_pattern
    if request.account is not None and pattern and not re.fullmatch(pattern, request.account):
        example = site.profile.request.account_example
        hint = f"for example {example}" if example else f"it has to match {pattern}"
        _refuse(site, "request.account_pattern", f"{request.account!r} is no account of {site.name}", hint)


def _check_forbidden(site: Site, request: Request) -> None:
    for forbidden in site.profile.request.forbidden:
        field = forbidden.flag.replace("-", "_")
        value = getattr(request, field, None)
        if value in (None, False, ()) or not request.given(field):
            continue
        if forbidden.value is None or str(value) == forbidden.value:
            hint = forbidden.instead or f"leave --{forbidden.flag} away"
            _refuse(site, "request.forbidden", f"--{forbidden.flag} at {site.name}: {forbidden.reason}", hint)


def _check_memory(site: Site, request: Request) -> None:
    memory = site.profile.memory
    if request.mem is None or not request.given("mem"):
        return
    if memory.policy == "forbidden":
        _refuse(site, "memory.policy", f"--mem must not be given at {site.name}", "leave --mem away")
    if memory.zero_allowed is False and parse_memory_mib(request.mem) == 0:
        _refuse(site, "memory.zero_allowed", f"--mem=0 is refused at {site.name}", "give a size, or leave it away")


def _check_known(site: Site, kind: str, name: str, table: dict[str, Queue]) -> None:
    renamed = site.profile.queues_renamed.get(name)
    if renamed is not None:
        _refuse(site, "queues_renamed", f"the {kind} {name} is gone", f"it is {renamed} now")
    if table and name not in table and site.profile.complete:
        from muster.errors import nearest_hint

        _refuse(site, "partitions", f"{site.name} has no {kind} {name!r}", nearest_hint(name, list(table)))


def _check_queue(site: Site, key: str, what: str, queue: Queue, request: Request, shape: Shape) -> None:
    if not queue.open:
        _refuse(site, f"{key}.open", f"{what} is not open to everybody", "ask the site's support, or take another")
    if queue.nodes_max is not None and shape.nodes > queue.nodes_max:
        sentence = f"{what} takes jobs of at most {queue.nodes_max} nodes, and {shape.nodes} are asked for"
        _refuse(site, f"{key}.nodes_max", sentence, f"-N {queue.nodes_max}, or another one")
    if queue.nodes_min is not None and shape.nodes < queue.nodes_min:
        sentence = f"{what} takes jobs of at least {queue.nodes_min} nodes, and {shape.nodes} are asked for"
        _refuse(site, f"{key}.nodes_min", sentence, f"-N {queue.nodes_min}, or another one")
    if queue.gpus is not None and shape.gpus_per_node > queue.gpus:
        sentence = f"a node of {what} has {queue.gpus} GPUs, and {shape.gpus_per_node} are asked for"
        _refuse(site, f"{key}.gpus", sentence, f"-g {queue.gpus}" if queue.gpus else "take a partition with GPUs")
    _check_time(site, key, what, queue, request, shape)


def _check_time(site: Site, key: str, what: str, queue: Queue, request: Request, shape: Shape) -> None:
    if request.time is None:
        return
    asked = parse_walltime_s(request.time)
    limit = _time_limit(queue, shape.nodes)
    if limit is not None and (asked is None or asked > limit):
        shown = "no limit" if asked is None else format_walltime(asked)
        sentence = (
            f"{what} runs jobs of {shape.nodes} nodes for at most {format_walltime(limit)}, and {shown} is asked for"
        )
        _refuse(site, f"{key}.time_max", sentence, f"-t {format_walltime(limit)}, or another one")
    if queue.node_minutes_max is not None and asked is not None and shape.nodes * asked > queue.node_minutes_max * 60:
        sentence = (
            f"{what} gives a job {queue.node_minutes_max} node-minutes, and {shape.nodes * asked // 60} are asked for"
        )
        _refuse(site, f"{key}.node_minutes_max", sentence, "fewer nodes, or less time")


def _time_limit(queue: Queue, nodes: int) -> int | None:
    for step in queue.time_by_nodes:
        if nodes <= step.nodes_max:
            return parse_walltime_s(step.time_max)
    return parse_walltime_s(queue.time_max) if queue.time_max else None
