"""Which nodes each role of a job has, and which part of them: GPUs and cores divided, never overlapping. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.model.plan import Plan, Reason, Role, Shape
from muster.plan.shape import NodeShape
from muster.plan.site_queue import cores_of

OF_THE_PART = (
    *("account", "partition", "qos", "constraint", "nodelist", "exclude"),
    *("mem", "exclusive", "gpu_type", "gres"),
)
"""What the nodes of a role may have of their own: where roles differ in it, the job is heterogeneous and has parts."""


def name_of(request: Request) -> str:
    return request.role or ""


class Placed(msgspec.Struct, frozen=True):
    """A role, and the part of the job's nodes that it has."""

    request: Request
    first: int
    nodes: int
    is_shared: bool
    reason: Reason
    part: int
    """The part of the job that has its nodes, counted from 0."""


def place_roles(roles: Sequence[Request], job: Request) -> list[Placed]:
    """Return the roles with their nodes: nodes of its own for each, or those of the role that it is beside."""
    by_name = {name_of(role): role for role in roles}
    hosts_of = {name: _root(by_name, name) for name in by_name}
    kinds = {name: _kind(by_name[name]) for name in hosts_of.values()}
    parts = list(dict.fromkeys(kinds[name_of(role)] for role in roles if not role.beside))
    first_of: dict[str, int] = {}
    next_node = 0
    for role in sorted((role for role in roles if not role.beside), key=lambda role: parts.index(_kind(role))):
        first_of[name_of(role)] = next_node
        next_node += role.nodes or 1
    crowded = [hosts_of[name_of(role)] for role in roles if role.beside]
    places = []
    for role in roles:
        root = by_name[hosts_of[name_of(role)]]
        held = root.nodes or 1
        own = role.beside and _is_own(role, "nodes", job)
        nodes = (role.nodes or 1) if own or not role.beside else held
        if nodes > held:
            message = f"role {name_of(role)}: {nodes} nodes beside {name_of(root)}, which has {held}"
            raise RequestError(message, hint=f"-N {held} or less, or omit --beside")
        reason = (
            Reason(f"beside {role.beside}, GPUs and cores divided", role.origin("beside"))
            if role.beside
            else Reason("nodes of its own", role.origin("nodes"))
        )
        placed_role = with_kind_of(role, root, job)
        part = parts.index(_kind(root))
        places.append(Placed(placed_role, first_of[name_of(root)], nodes, name_of(root) in crowded, reason, part))
    if max(placed.part for placed in places) and job.given("nodelist"):
        message = f"{job.origin('nodelist')} names nodes for all roles, but the nodes of the job are of several kinds"
        raise RequestError(message, hint="write it behind the --role that it is for")
    return places


def _kind(request: Request) -> tuple[object, ...]:
    return tuple(getattr(request, field) for field in OF_THE_PART)


def with_kind_of(request: Request, other: Request, job: Request) -> Request:
    """Return the request with the nodes of the other; refused where it asks for nodes of another kind itself."""
    for field in OF_THE_PART:
        asked, held = getattr(request, field), getattr(other, field)
        if asked != held and _is_own(request, field, job):
            message = f"role {name_of(request)}: {request.origin(field)}, but it runs on nodes of {name_of(other)}"
            raise RequestError(message, hint=f"write it behind --role {name_of(other)}, or omit --beside")
    origins = {name: each for name, each in request.origins.items() if name not in OF_THE_PART}
    origins.update((name, each) for name, each in other.origins.items() if name in OF_THE_PART)
    return replace(request, **{field: getattr(other, field) for field in OF_THE_PART}, origins=origins)


def _is_own(role: Request, field: str, job: Request) -> bool:
    """Return whether a value was typed for the role: what holds for all roles has the one origin that the job has."""
    return role.given(field) and role.origins[field] is not job.origins.get(field)


def _root(by_name: Mapping[str, Request], name: str) -> str:
    other = by_name[name].beside
    return name if other is None else _root(by_name, other)


def listens(request: Request) -> bool:
    """Return whether a role listens at its port, so that a second rank of a node would find it taken."""
    by_ready = (request.ready or "").partition(":")[0] in {"port", "http", "https"}
    return request.port is not None or by_ready or any("{port}" in word for word in request.command)


def may_answer(address: str) -> bool:
    """Return whether an address has a host, and a port that exists if it has one."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # the port is not a number, or above 65535
        return False
    return parts.scheme in {"http", "https"} and parts.hostname is not None and port != 0


def small_part(request: Request) -> Request:
    """Return the request of a role beside another: unasked it has no GPU, and then a core for each rank."""
    if not request.given("gpus_per_node"):
        request = _divided(request, gpus_per_node=0)
    has_cores = request.given("cpus_per_task") or request.gpus_per_node
    return request if has_cores else _divided(request, cpus_per_task=1)


def what_is_left(request: Request, others: Sequence[Shape], node: NodeShape) -> Request:
    """Return the request of the role that others are beside: unasked it has the GPUs and cores that they leave."""
    gpus_of_others = sum(shape.gpus_per_node for shape in others)
    if node.gpus and node.is_taken_whole and not request.given("gpus_per_node") and request.ntasks_per_node is None:
        request = _divided(request, gpus_per_node=max(0, node.gpus - gpus_of_others))
    ranks = request.ntasks_per_node or request.gpus_per_node
    if request.given("cpus_per_task") or not (ranks and node.cpus_per_gpu and node.gpus and node.cpus):
        return request
    share = node.cpus_per_gpu * max(1, (request.gpus_per_node or 0) // ranks)
    left = min(node.cpus, node.cpus_per_gpu * node.gpus) - sum(map(cores_of, others))
    return _divided(request, cpus_per_task=max(1, min(share, left // ranks)))


def _divided(request: Request, **part: int) -> Request:
    """Return the request with a part of the node that was not asked for."""
    origin = ValueOrigin(OriginKind.PROFILE, "the division of the node between the roles")
    return replace(request, **part, origins={**request.origins, **dict.fromkeys(part, origin)})


def check_room(places: Sequence[Placed], plans: Mapping[str, Plan], node: NodeShape) -> None:
    """Refuse roles that together need more of a node than it has."""
    gpus = {name: plan.shape.gpus_per_node for name, plan in plans.items()}
    cpus = {name: cores_of(plan.shape) for name, plan in plans.items()}
    for noun, option, counts, held in (("GPUs", "-g", gpus, node.gpus), ("CPUs", "-c", cpus, node.cpus)):
        for number in range(max(placed.first + placed.nodes for placed in places)):
            there = [name_of(placed.request) for placed in places if number - placed.first in range(placed.nodes)]
            total = sum(counts[name] for name in there)
            if held and len(there) > 1 and total > held:
                parts = " + ".join(f"{counts[name]} ({name})" for name in there)
                message = f"roles share a node: {parts} = {total} {noun}, but a node has {held} ({node.origin})"
                raise RequestError(message, hint=f"give each role its part with {option}")


def sum_of_roles(roles: Sequence[Role], node: NodeShape) -> tuple[int, int, int, int | None]:
    """Return the nodes, GPUs of a node, ranks of a node and CPUs of a rank that hold these roles of one part."""
    numbers = sorted({number for role in roles for number in role.hosts_held})
    there = [[role.plan.shape for role in roles if number in role.hosts_held] for number in numbers]
    gpus = max(sum(shape.gpus_per_node for shape in shapes) for shapes in there)
    ranks = max(sum(shape.ntasks_per_node for shape in shapes) for shapes in there)
    if all(shape.cpus_per_task is None for shapes in there for shape in shapes) and (ranks <= gpus or not gpus):
        return len(numbers), gpus, ranks, None
    cpus = max(sum(map(cores_of, shapes)) for shapes in there)
    each = -(-cpus // ranks)
    if (gpus and ranks > gpus) or (node.cpus and ranks * each > node.cpus):
        return len(numbers), gpus, 1, cpus
    return len(numbers), gpus, ranks, each
