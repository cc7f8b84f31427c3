"""Several programs in one job: each role is planned as any launch is, and the job holds what all of them need. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError, nearest_hint
from muster.facts import Facts
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.job.roles import ROLE_OPTIONS
from muster.launchers import launcher_named
from muster.launchers.base import Starter
from muster.model.plan import Directive, Engine, Flag, Note, Plan, Ready, ReadyKind, Reason, Role, Variable
from muster.model.words import Fragment, Template, Word
from muster.older import zip_equal
from muster.plan.build import make_plan
from muster.plan.header import add_comment
from muster.plan.live import ask_of_plan, judge_parts
from muster.plan.presets import has_key, offered_variables, preset_of, with_preset
from muster.plan.role_places import (
    OF_THE_PART,
    Placed,
    check_room,
    listens,
    may_answer,
    name_of,
    place_roles,
    small_part,
    sum_of_roles,
    what_is_left,
    with_kind_of,
)
from muster.plan.shape import NodeShape
from muster.plan.size import node_shape
from muster.policy.rules import Ask
from muster.rank import contract
from muster.sites.site import Site

# What the whole job has: one place in the queue.
_OF_THE_JOB = ("trial", "time", "job_name", "sbatch", "site", "site_set", "fresh", "requeue")
# What stays in one part's header: Slurm takes these from the first.
_OF_THE_FIRST_PART = frozenset({"comment", "export", "output", "error", "open-mode"})
# How nodes are asked for, as the site has decided it; and how many, and how much of each.
_QUEUE = frozenset({"account", "partition", "qos", "constraint"})
_SIZES = frozenset({"nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gres", "comment"})
# What a job of several programs cannot do yet, and what does instead.
_NOT_WITH_ROLES = {
    "here": "muster lab: a cluster on this machine",
    "sweep": "a job for each row: muster submit in a loop",
    "sweep_at_once": "omit it",
    "sweep_per_node": "omit it",
    "until_done": "omit it; --restart N and --checkpoint DIR of the role that trains hold within the job",
    "links": "omit it",
    "spares": "omit it",
    "save_before": "omit it; a role gets SIGTERM before it is ended",
    "hang": "omit it; muster stacks JOB shows where the ranks stand",
    "output": "omit it: muster logs JOB --role NAME",
    "error": "omit it: muster logs JOB --role NAME",
    "per_rank_files": "omit it: muster logs JOB --role NAME --rank R",
    "stage_env": "muster stage, before the job",
    "stage": "muster stage, before the job",
    "stage_out": "omit it",
    "closed": "omit it",
    "snapshot": "omit it, and leave the project as it is until the job has begun",
    "check": "muster check in a job of its own",
}
_ADDRESS = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\.(host|hosts|port|url|key)\}")
_OWN = re.compile(r"(?<!\$)\{(host|hosts|port|url)\}")
_DOTTED = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\.([^{}]*)\}")
_BRACED = re.compile(r"(?<!\$)\{[^{}]*\}")
_WHERE = "the roles, and where they are"
_WHATS = ("host", "hosts", "port", "url")


def make_job_of_roles(request: Request, site: Site, look: Callable[[Request], Facts], typed: Sequence[str]) -> Plan:
    """Return the plan of a job with several programs; `look` gathers the facts that a role's request names."""
    _check(request)
    roles = tuple(with_preset(role) for role in request.roles)
    main_name = _main_of(request)
    places = place_roles(roles, request)
    plans: dict[str, Plan] = {}
    kinds = {placed.part: placed.request for placed in places}
    parts = [with_kind_of(request, kinds[part], request) for part in sorted(kinds)]
    nodes = [node_shape(site, part) for part in parts]
    for placed in sorted(places, key=lambda placed: not placed.request.beside):
        own_request = _request_of(placed, places, plans, nodes[placed.part])
        name = name_of(placed.request)
        plans[name] = _plan_of(name, own_request, site, look(own_request), typed, within=True)
    for part, node in enumerate(nodes):
        check_room([placed for placed in places if placed.part == part], plans, node)
    gives_gpus = _gives_gpus(site, places, plans)
    roles_made = tuple(
        _role(placed, plans, roles, main_name, gives_gpus=gives_gpus, of_parts=len(parts) > 1) for placed in places
    )
    return _job(request, parts, site, look, typed, places, roles_made, nodes)


def _plan_of(
    roles: str, request: Request, site: Site, facts: Facts, typed: Sequence[str], *, within: bool = False
) -> Plan:
    """Return the plan of a part of the job; what is refused names its roles, where it is not for all of them."""
    try:
        return make_plan(request, site, facts, typed=typed, within=within)
    except RequestError as error:
        message = f"role {roles}: {error.message}" if roles else error.message
        raise RequestError(message, hint=error.hint, refusals=error.refusals) from None


def _check(request: Request) -> None:
    """Refuse what roles cannot have, and roles that speak of none that is there."""
    for field, hint in _NOT_WITH_ROLES.items():
        for asked in (request, *request.roles):
            if asked.typed(field) and getattr(asked, field):
                raise RequestError(f"{asked.origin(field)}: it is not known to a job with roles", hint=hint)
    names = [name_of(role) for role in request.roles]
    for role in request.roles:
        name = name_of(role)
        for field in _OF_THE_JOB:
            if getattr(role, field) != getattr(request, field):
                message = f"role {name}: {role.origin(field)} is for the whole job"
                raise RequestError(message, hint="write it before the first --role")
        if not role.command and role.preset is None:
            raise RequestError(f"role {name} has no command", hint=f"--role {name} -N 1 -- python {name}.py")
        for field, others in (("after", role.after), ("beside", (role.beside,) if role.beside else ())):
            for other in others:
                if other not in names:
                    message = f"role {name}: {role.origin(field)} names {other}, but no role is called so"
                    raise RequestError(message, hint=nearest_hint(other, names))
                if other == name:
                    raise RequestError(f"role {name}: {role.origin(field)} names the role itself", hint="omit it")
    _refuse_circle({name_of(role): role.after for role in request.roles}, "starts after")
    _refuse_circle({name_of(role): (role.beside,) if role.beside else () for role in request.roles}, "runs beside")


def _refuse_circle(needs: Mapping[str, Sequence[str]], verb: str) -> None:
    """Refuse roles of which each waits for another one."""

    def walk(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = f" {verb} ".join((*path[path.index(name) :], name))
            raise RequestError(f"the roles wait for each other: {circle}", hint="omit one of them")
        for other in needs[name]:
            walk(other, (*path, name))

    for name in needs:
        walk(name, ())


def _main_of(request: Request) -> str:
    mains = [role for role in request.roles if role.main]
    if len(mains) > 1:
        message = f"two roles are the main one: {name_of(mains[0])} and {name_of(mains[1])}"
        raise RequestError(message, hint="--main for one of them")
    main = mains[0] if mains else request.roles[-1]
    if main.on_failure != request.on_failure:
        message = f"role {name_of(main)} is the main one: its end is the job's, {main.origin('on_failure')} or not"
        raise RequestError(message, hint="omit it, or name another role with --main")
    return name_of(main)


def _request_of(placed: Placed, places: Sequence[Placed], plans: Mapping[str, Plan], node: NodeShape) -> Request:
    """Return the request of a role as a launch over its own nodes: what the job has is not asked for again."""
    request = placed.request
    reset = {
        field.name: field.default
        for field in msgspec.structs.fields(Request)
        if field.name in {*_NOT_WITH_ROLES, *ROLE_OPTIONS, "roles", "gres", "sbatch", "nodelist", "exclude", "mem"}
    }
    origins = {name: each for name, each in request.origins.items() if name not in {*_OF_THE_JOB, *OF_THE_PART, *reset}}
    changed = replace(request, **reset, origins=origins, nodes=placed.nodes)
    if listens(request) and not request.given("ntasks_per_node"):
        origin = ValueOrigin(OriginKind.PROFILE, "the role listens at one port")
        changed = replace(changed, ntasks_per_node=1, origins={**changed.origins, "ntasks_per_node": origin})
    if not placed.is_shared:
        return changed
    if request.beside:
        return small_part(changed)
    others = [
        plans[name_of(other.request)].shape for other in places if other.request.beside and other.first == placed.first
    ]
    return what_is_left(changed, others, node)


def _gives_gpus(site: Site, places: Sequence[Placed], plans: Mapping[str, Plan]) -> bool:
    """Return whether Slurm gives the GPUs of a node out to steps; roles that share GPUs need that."""
    if site.profile.request.gpus != "whole-node":
        return any(plan.shape.gpus_per_node for plan in plans.values())
    sharing = [placed for placed in places if plans[name_of(placed.request)].shape.gpus_per_node]
    for placed in sharing:
        if any(other is not placed and other.first == placed.first for other in sharing):
            message = f"role {name_of(placed.request)} shares GPUs: at {site.name} Slurm does not give out single GPUs"
            raise RequestError(message, hint="give the role nodes of its own, or no GPU (-g 0)")
    return False


def _role(
    placed: Placed, plans: Mapping[str, Plan], roles: Sequence[Request], main: str, *, gives_gpus: bool, of_parts: bool
) -> Role:
    """Return the role, with the plan that keeps to its part of the nodes and knows all addresses."""
    request, name = placed.request, name_of(placed.request)
    plan = plans[name]
    launcher = launcher_named(plan.launcher)
    if launcher.starter(Engine.SLURM) is Starter.PROGRAM and placed.is_shared:
        message = f"role {name} shares its nodes, but {plan.launcher} takes whole nodes"
        raise RequestError(message, hint="--launcher srun or torchrun, or nodes of its own")
    if launcher.starter(Engine.SLURM) is Starter.PROGRAM and of_parts:
        message = f"role {name}: {plan.launcher} starts nothing in a part of a job whose nodes are of several kinds"
        raise RequestError(message, hint="--launcher srun or torchrun; or nodes of one kind for all roles")
    names = [name_of(role) for role in roles]
    gaps = tuple(f"{role}.{what}" for role in names for what in (*_WHATS, "key"))
    own_variables = (*offered_variables(roles, name), *plan.variables)
    variables = (*_address_variables(roles, name), *(_open(variable, name, names, gaps) for variable in own_variables))
    bound = ("--cpu-bind", "--gpu-bind")
    site_flags = [flag for flag in plan.step_flags if not (placed.is_shared and str(flag.word).startswith(bound))]
    ready = _ready(request, name, names, gaps)
    reasons = [(f"nodes {_range(placed.first, placed.nodes)} of the job", placed.reason)]
    if of_parts:
        text = "a heterogeneous job: the roles ask for nodes of several kinds"
        words = f"part {placed.part + 1} of the job, srun --het-group={placed.part}"
        reasons.append((words, Reason(text, _origin_of_part(request, roles))))
    reasons += _reasons_of_order(request, name == main, ready)
    scheme, port = _port_of(request)
    preset = preset_of(request)
    own_plan = replace(
        plan,
        command=tuple(_filled(word, name, names, gaps) for word in plan.command),
        variables=variables,
        step_flags=(*site_flags, *_flags(placed, plan, gives_gpus=gives_gpus, of_parts=of_parts)),
        overlap=False,
        notes=(*plan.notes, *_note_of_cores(placed, plan)),
    )
    return Role(
        name,
        own_plan,
        placed.first,
        ready,
        tuple(reasons),
        after=request.after,
        is_main=name == main,
        ends_job=request.on_failure == "end",
        scheme=scheme,
        port=port,
        ports=1 if preset is None else preset.ports,
        part=placed.part if of_parts else None,
    )


def _origin_of_part(request: Request, roles: Sequence[Request]) -> str:
    """Return what was asked for the nodes of a role, where others have asked for other ones."""
    differing = (field for field in OF_THE_PART if len({getattr(role, field) for role in roles}) > 1)
    return ", ".join(request.origin(field) for field in differing)


def _range(first: int, nodes: int) -> str:
    return str(first + 1) if nodes == 1 else f"{first + 1}-{first + nodes}"


def _flags(placed: Placed, plan: Plan, *, gives_gpus: bool, of_parts: bool) -> Iterator[Flag]:
    """Yield the flags by which the step of a role keeps to its part of the job."""
    name = name_of(placed.request)
    yield Flag(f"--job-name={name}", Reason("the step is known by the role's name"))
    if of_parts:
        yield Flag(f"--het-group={placed.part}", Reason("the part of the job that has the role's nodes"))
    yield Flag(Fragment('--nodelist="$SLURM_JOB_NODELIST"'), Reason("the role's nodes among those of the job"))
    if gives_gpus and plan.shape.gpus_per_node:
        yield Flag(f"--gpus-per-node={plan.shape.gpus_per_node}", Reason("the GPUs of this role, and no others"))
    elif gives_gpus:
        yield Flag("--gres=none", Reason("the role has no GPU: without it the step would hold those of the others"))
    if placed.is_shared:
        yield Flag("--exact", Reason("this role's part of the node; without it a step takes all CPUs"))
        yield Flag("--mem=0", Reason("roles share the memory: a step would take it all"))


def _note_of_cores(placed: Placed, plan: Plan) -> Iterator[Note]:
    if placed.is_shared and not plan.shape.cpus_per_task:
        text = "it shares its nodes and no cores are asked for: Slurm gives its default, often one for each rank; -c N"
        yield Note(text)


def _address_variables(roles: Sequence[Request], own: str) -> Iterator[Variable]:
    """Yield what each process is told of the roles: the job's runner has set it before the role starts."""
    yield Variable(contract.ROLE, own, Reason("which of the job's programs this is"))
    yield Variable(contract.ROLE_PORT, "", Reason("its own port", short=_WHERE), pass_on=True)
    for role in roles:
        name = name_of(role)
        if name == own and has_key(role):
            yield Variable(contract.ROLE_KEY, "", Reason("its own secret", short=_WHERE), pass_on=True)
        for what in (*_WHATS, *(("key",) if has_key(role) else ())):
            variable = f"MUSTER_{name}_{what}".upper()
            reason = Reason(f"where role {name} is", short=_WHERE)
            yield Variable(variable, "", reason, pass_on=True)


def _open(variable: Variable, own: str, names: Sequence[str], gaps: tuple[str, ...]) -> Variable:
    value = variable.value
    if not isinstance(value, (str, Template)):
        return variable
    return replace(variable, value=_filled(value, own, names, gaps))


def _filled(word: Word, own: str, names: Sequence[str], gaps: tuple[str, ...]) -> Word:
    """Return a word in which addresses of roles are gaps; {port} is the role's own."""
    text = word.text if isinstance(word, Template) else word
    if not isinstance(text, str):
        return word
    whole = _OWN.sub(lambda match: f"{{{own}.{match[1]}}}", text)
    for name, _ in _ADDRESS.findall(whole):
        if name not in names:
            message = f"role {own}: {text} names {name}, but no role is called so"
            raise RequestError(message, hint=nearest_hint(name, names))
    for gap in _DOTTED.finditer(whole):
        if gap[1] in names and not _ADDRESS.fullmatch(gap[0]):
            message = f"role {own}: {gap[0]} is not an address of role {gap[1]}"
            raise RequestError(message, hint=nearest_hint(gap[2], _WHATS))
    return Template(whole, gaps) if _ADDRESS.search(whole) or isinstance(word, Template) else word


def _port_of(request: Request) -> tuple[str, int | None]:
    scheme, _, number = (request.port or "").rpartition(":")
    if number and not number.isdigit():
        scheme, number = number, ""
    return scheme or "http", int(number) if number else None


def _ready(request: Request, own: str, names: Sequence[str], gaps: tuple[str, ...]) -> Ready:
    asked_way = request.ready or "joined"
    within = request.ready_within
    kind, colon, text = asked_way.partition(":")
    if asked_way in {"port", "joined"}:
        return Ready(ReadyKind(asked_way), within)
    if colon and kind in {"http", "https"}:
        for gap in _BRACED.findall(asked_way):
            if not (_OWN.fullmatch(gap) or _ADDRESS.fullmatch(gap)):
                message = f"role {own}: {request.origin('ready')}: {gap} is not an address of a role"
                raise RequestError(message, hint=nearest_hint(gap[1:-1], _WHATS))
        if all(map(may_answer, _BRACED.sub("1", asked_way).split())):
            return Ready(ReadyKind.ADDRESS, within, _filled(asked_way, own, names, gaps))
    if kind in {"log", "command"} and text.strip():
        return Ready(ReadyKind(kind), within, _filled(text, own, names, gaps))
    hint = "port, joined, log:TEXT, command:COMMAND, or an address: 'http://{host}:{port}/health'"
    raise RequestError(f"role {own}: {request.origin('ready')} does not say when it is ready", hint=hint)


def _reasons_of_order(request: Request, is_main: bool, ready: Ready) -> Iterator[tuple[str, Reason]]:
    if request.after:
        words = f"after {', '.join(request.after)}"
        yield words, Reason("starts when they are ready", request.origin("after"))
    text = ready.text.text if isinstance(ready.text, Template) else str(ready.text)
    detail = f" {text}" if text else ""
    words = f"ready: {ready.kind.value}{detail}, within {ready.within_s} s"
    yield words, Reason("others may wait for it", request.origin("ready"))
    if is_main:
        origin = request.origin("main") if request.main else "the last role"
        yield "main", Reason("its end ends the job, with its status", origin)
    elif request.on_failure == "note":
        yield "its failure is noted", Reason("the job goes on without it", request.origin("on_failure"))
    else:
        yield "its failure ends the job", Reason("a role that others count on is gone", request.origin("on_failure"))


def _job(
    job: Request,
    parts: Sequence[Request],
    site: Site,
    look: Callable[[Request], Facts],
    typed: Sequence[str],
    places: Sequence[Placed],
    roles: tuple[Role, ...],
    nodes: Sequence[NodeShape],
) -> Plan:
    """Return the plan of the job: the header of each part asks for what its roles need together."""
    main = next(role for role in roles if role.is_main)
    main_request = next(placed.request for placed in places if name_of(placed.request) == main.name)
    noted = next((placed.request for placed in places if placed.request.on_failure == "note"), None)
    headers: list[tuple[Directive, ...]] = []
    plans: list[Plan] = []
    names: list[str] = []
    wishes: list[tuple[object, ...]] = []
    asks: list[Ask] = []
    for number, (request, node) in enumerate(zip_equal(parts, nodes)):
        there = [role for role, placed in zip_equal(roles, places) if placed.part == number]
        job_request = _sum_request(request, main_request.command, there, node)
        facts = look(job_request)
        names.append(", ".join(role.name for role in there) if len(parts) > 1 else "")
        plan = _plan_of(names[-1], job_request, site, facts, typed)
        left_out = _OF_THE_FIRST_PART if number else frozenset({"comment"})
        directives = tuple(directive for directive in plan.directives if directive.name not in left_out)
        if noted is not None:
            reason = Reason("the job outlives a node of a role whose failure is noted", noted.origin("on_failure"))
            directives += (Directive("no-kill", None, reason),)
        plans.append(plan)
        asks.append(ask_of_plan(job_request, plan))
        own_words = (getattr(request, field) for field in OF_THE_PART if field not in _QUEUE)
        decided = sorted((line.name, line.value or "") for line in plan.directives if line.name not in _SIZES)
        wishes.append((*own_words, *decided))
        headers.append(directives)
    if len(set(wishes)) < len(wishes):  # the site decides alike for parts that were written in several ways
        kind_of = {name_of(placed.request): parts[wishes.index(wishes[placed.part])] for placed in places}
        joined = tuple(with_kind_of(role, kind_of[name_of(role)], role) for role in job.roles)
        return make_job_of_roles(replace(job, roles=joined), site, look, typed)
    if len(parts) > 1 and any(directive.name == "array" for directive in headers[0]):
        message = "--sbatch=--array: a job whose nodes are of several kinds cannot be an array"
        raise RequestError(message, hint="omit it, or nodes of one kind for all roles")
    notes = [
        note if all(note in other.notes for other in plans) else replace(note, text=f"role {of_part}: {note.text}")
        for of_part, plan in zip_equal(names, plans)
        for note in plan.notes
    ]
    notes_of_roles = (
        replace(note, text=f"role {role.name}: {note.text}")
        for role in roles
        for note in role.plan.notes
        if not any(note in plan.notes for plan in plans)
    )
    bare = replace(
        plans[0],
        directives=headers[0],
        parts=tuple(headers[1:]),
        prelude=(),
        variables=(),
        conditions=(),
        hang=None,
        roles=roles,
        own_python=facts.own_python,
        supervisor=f"{facts.package}/life",
        notes=tuple(dict.fromkeys((*notes, *judge_parts(site, asks), *notes_of_roles))),
    )
    return add_comment(bare)


def _sum_request(request: Request, command: tuple[str, ...], roles: Sequence[Role], node: NodeShape) -> Request:
    """Return the request of one part of the job: what its roles need together."""
    count, gpus, ranks, cpus = sum_of_roles(roles, node)
    origin = ValueOrigin(OriginKind.OPTION, "the roles")
    held: dict[str, Any] = {"nodes": count, "ntasks_per_node": ranks, "gpus_per_node": gpus, "cpus_per_task": cpus}
    fields = (*_OF_THE_JOB, *OF_THE_PART)
    origins = {name: each for name, each in request.origins.items() if name in fields}
    origins.update((name, origin) for name, value in held.items() if value is not None)
    return Request(command=command, **{name: getattr(request, name) for name in fields}, **held, origins=origins)
