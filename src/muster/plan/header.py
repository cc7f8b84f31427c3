"""The #SBATCH header: every flag of the job stands there, and sbatch is given none but --output. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from muster.errors import RequestError, refused
from muster.job.request import Request, options_of
from muster.launchers.base import Launcher
from muster.model.finish import Finish
from muster.model.plan import Directive, Note, Plan, Reason, Shape
from muster.plan.asked import Asked
from muster.plan.finish import check_limit
from muster.plan.live import ask_of, live_kind_name
from muster.plan.size import Size
from muster.plan.terms import Terms
from muster.policy.cluster import NAMED_BY_SLURM, refusals_here
from muster.policy.limits import lifted_rules
from muster.policy.names import say_unlisted, unlisted_names
from muster.policy.rules import Ask, doubt_of, refusals, say_origin
from muster.policy.waiting import rules_waited_for
from muster.sites.site import SAID_HERE, Site
from muster.slurm.flags import gpu_type_in_gres
from muster.units import Memory


def make_header(
    asked: Asked, size: Size, terms: Terms, launcher: Launcher, finish: Finish | None, job_name: str
) -> tuple[tuple[Directive, ...], Ask]:
    """Return the header of the job, and the job as it asks for it; what the site does not take is refused here."""
    directives = _make_directives(asked, size, terms, finish, job_name)
    check_limit(asked.request, finish, directives)
    ask = _ask_of_header(asked, size, launcher, directives)
    _check_limits(asked.site, asked.request, ask)
    return directives, ask


def notes_of_names(site: Site, ask: Ask) -> Iterator[Note]:
    """Yield a warning for each name that the profile does not list, and for each number that is not the site's own."""
    for unlisted in unlisted_names(site.profile, ask):
        if site.cluster is None or unlisted.kind not in NAMED_BY_SLURM:
            yield Note(say_unlisted(site, unlisted), warning=True)
    for offer in site.profile.unverified if site.cluster is None else ():
        if offer.key in {f"partitions.{ask.partition}.time_max", f"qos.{ask.qos}.time_max"}:
            name = offer.key.split(".")[1]
            yield Note(f"the longest time of {name} is not verified: {offer.value} ({offer.reason}; {offer.checked})")
    for refusal in refusals(site.profile, ask, is_counted=site.cluster is not None):
        doubt = doubt_of(site, refusal)
        if doubt:
            text = f"{refusal.message} ({say_origin(site, refusal)})"
            yield Note(f"{text}: {doubt}, and Slurm decides", warning=True)


def add_comment(plan: Plan) -> Plan:
    """Return the plan with the directive by which its job is known in the queue: the digest of all the rest."""
    from muster.model.digest import digest_of

    reason = Reason("Muster finds the job by this, even if sbatch got no answer")
    return replace(plan, directives=(*plan.directives, Directive("comment", f"muster:{digest_of(plan)}", reason)))


def _make_directives(
    asked: Asked, size: Size, terms: Terms, finish: Finish | None, job_name: str
) -> tuple[Directive, ...]:
    """Return what was asked, then what the site adds, then the flags that are passed on."""
    directives = {directive.name: directive for directive in _asked(asked, size, terms, finish, job_name)}
    asked_memory = _OF_MEMORY & {*directives, *(flag.name for flag in asked.flags)}
    for directive in terms.directives:
        if not (asked_memory and directive.name in _OF_MEMORY):
            directives.setdefault(directive.name, directive)
    for flag in asked.flags:
        name, origin = flag.name, flag.origin
        if name == "no-requeue" and terms.requeue == "preempted" and not asked.request.requeue:
            directives.pop("requeue", None)
        if name == "no-requeue" and "requeue" in directives:
            raise RequestError(
                f"{directives['requeue'].reason.origin} and {origin} contradict each other", hint="give one"
            )
        if name in directives and directives[name].value != flag.value:
            own_directive = directives[name]
            message = (
                f"{origin} and --{name}={own_directive.value} ({own_directive.reason.origin}) contradict each other"
            )
            raise RequestError(message, hint="omit one of them")
        directives[name] = Directive(name, flag.value, Reason("set by you", origin))
    return tuple(directives.values())


# Of these Slurm takes one.
_OF_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})


def _asked(asked: Asked, size: Size, terms: Terms, finish: Finish | None, job_name: str) -> Iterator[Directive]:
    request, shape = asked.request, size.shape
    reasons = dict(shape.reasons)
    yield Directive("job-name", job_name, _set(request, "job_name", "the command's name"))
    if asked.table is not None:
        from muster.plan.sweep import array_directive

        yield array_directive(request, asked.table)
    spares = finish.spares if finish is not None else 0
    yield Directive("nodes", str(shape.nodes + spares), reasons["nodes"])
    if spares:
        yield Directive("no-kill", None, Reason("the job outlives a node that dies", request.origin("spares")))
    if finish is not None and finish.save is not None and not asked.stream:
        save_reason = Reason("Slurm tells the script, which tells the ranks", request.origin("save_before"))
        yield Directive("signal", f"B:USR1@{finish.save.before_s}", save_reason)
    yield Directive("ntasks-per-node", str(shape.ntasks_per_node), reasons["ntasks_per_node"])
    if shape.cpus_per_task:
        yield Directive("cpus-per-task", str(shape.cpus_per_task), reasons["cpus_per_task"])
    yield from _gpus(request, terms, shape, reasons["gpus_per_node"])
    yield from _as_written(asked)
    yield _export(request, terms)
    yield from _requeue(request, terms, links=finish is not None and finish.links > 0)
    base = PurePosixPath(asked.directory)
    for field in ("output", "error"):
        value = getattr(request, field)
        if value is not None:
            yield Directive(field, str(base / value), _set(request, field))


def _requeue(request: Request, terms: Terms, *, links: bool) -> Iterator[Directive]:
    """Return whether Slurm may run the job again: only where somebody asked for it, or the site leaves no choice."""
    is_again = request.requeue or terms.requeue in {"always", "preempted"} or (links and terms.requeue != "never")
    if terms.requeue == "never" and request.requeue:
        raise RequestError(
            f"{request.origin('requeue')}: {terms.requeue_reason.text}", hint="omit it, and submit the job again"
        )
    if is_again:
        if not request.requeue:
            again = Reason("a node that fails puts this link back into the queue", request.origin("until_done"))
            yield Directive("requeue", None, again if links else terms.requeue_reason)
        yield Directive("open-mode", "append", Reason("the output of the first run stays when the job runs again"))
    else:
        if links:
            yield Directive("open-mode", "append", Reason("the output of each link stays"))
        yield Directive(
            "no-requeue", None, Reason("a training starts again from the beginning only if --requeue asks for it")
        )


def _as_written(asked: Asked) -> Iterator[Directive]:
    """Yield the options that are one directive each: the option itself says which."""
    request = asked.request
    for field, option in options_of().items():
        if field in asked.reasons:
            yield Directive(field, str(getattr(request, field)), Reason(asked.reasons[field], request.origin(field)))
            continue
        value = getattr(request, field) if option.directive else None
        if option.directive and value is not None and value is not False:
            otherwise = "these nodes failed under earlier jobs (muster nodes)" if field == "exclude" else ""
            yield Directive(option.directive, None if value is True else str(value), _set(request, field, otherwise))


def _gpus(request: Request, terms: Terms, shape: Shape, reason: Reason) -> Iterator[Directive]:
    if request.gres is not None:
        yield Directive("gres", request.gres, _set(request, "gres"))
        if "gpu" in request.gres:
            if request.gpu_type is not None:
                message = f"{request.origin('gres')} and {request.origin('gpu_type')} both say which GPUs are wanted"
                raise RequestError(message, hint="-g COUNT --gpu-type TYPE")
            return
    gpus = shape.gpus_per_node
    if request.gpu_type is not None and not gpus:
        message = f"{request.origin('gpu_type')} says which GPUs are wanted, but no GPU is asked for"
        raise RequestError(message, hint="-g 1")
    if request.gpu_type is not None and terms.gpu_form == "none":
        message = f"{request.origin('gpu_type')}: {terms.site} gives whole nodes with all of their GPUs"
        raise RequestError(message, hint="omit --gpu-type; a constraint (-C) or a partition (-p) selects the nodes")
    if not gpus or terms.gpu_form == "none":
        return
    kind = f"{terms.gpu_type}:" if terms.gpu_type else ""
    form = terms.gpu_form_reason
    origin = Reason(f"{reason.text}; {form.text}", reason.origin, form.source, form.checked)
    if terms.gpu_form == "gres":
        yield Directive("gres", f"gpu:{kind}{gpus}", origin)
    else:
        yield Directive("gpus-per-node", f"{kind}{gpus}", origin)


def _set(request: Request, field: str, otherwise: str = "") -> Reason:
    return Reason(request.set_by(field), request.origin(field)) if request.given(field) else Reason(otherwise)


def _export(request: Request, terms: Terms) -> Directive:
    if request.export == "ALL":
        reason = Reason("set by you: the whole environment of the submitting shell", request.origin("export"))
        return Directive("export", "ALL", reason)
    return Directive("export", "NONE" if request.given("export") else terms.export, terms.export_reason)


def _check_limits(site: Site, request: Request, ask: Ask) -> None:
    """Refuse what the site's documents say it refuses; every broken rule is reported at once."""
    broken_by_profile = refusals(site.profile, ask, is_counted=site.cluster is not None)
    refused_by_profile = [refusal for refusal in broken_by_profile if not doubt_of(site, refusal)]
    if refused_by_profile:
        from muster.policy.elsewhere import name_others

        numbers = {"nodes": ask.nodes, "gpus_per_node": ask.gpus_per_node, "ntasks_per_node": ask.ntasks_per_node}
        as_typed = replace(ask_of(request), **numbers)
        refused_by_profile = name_others(site, as_typed, (ask.partition, ask.qos), refused_by_profile)
    broken = [(refusal, say_origin(site, refusal)) for refusal in refused_by_profile]
    if site.cluster is not None:
        waited = rules_waited_for(site.cluster, ask)
        lifted = {"partitions": lifted_rules(site.cluster, ask) | waited, "qos": waited}
        broken = [pair for pair in broken if pair[0].rule not in lifted.get(pair[0].key.partition(".")[0], ())]
        known_rules = {refusal.rule for refusal, _ in broken}
        said_here = (refusal for refusal in refusals_here(site.cluster, ask) if refusal.rule not in known_rules)
        broken += [(refusal, SAID_HERE) for refusal in said_here]
    if broken:
        raise refused(*broken)


def _ask_of_header(asked: Asked, size: Size, launcher: Launcher, directives: Sequence[Directive]) -> Ask:
    """Return the job as the header asks for it, spare nodes among its nodes."""
    request, shape = asked.request, size.shape
    header = {directive.name: directive.value for directive in directives}
    memory = header.get("mem")  # as asked, else the profile's own
    return replace(
        ask_of(request),
        nodes=shape.nodes + request.spares,
        spares=request.spares,
        gpus_per_node=shape.gpus_per_node,
        gpu_type=_gpu_type(header),
        ntasks_per_node=shape.ntasks_per_node,
        cpus_per_task=shape.cpus_per_task,
        mem=Memory.parse(memory) if memory else None,
        **{name: header.get(name) for name in _NAMES},
        launcher=launcher.site_name,
        image=str(request.image) if request.image else None,
        modules=request.module,
        flags={name: value for name, value in header.items() if name not in {*_NAMES, *_NUMBERS}},
        node=live_kind_name(asked.site, replace(request, partition=header.get("partition"))),
    )


_NAMES = ("partition", "qos", "account", "constraint")
_NUMBERS = ("nodes", "ntasks-per-node", "cpus-per-task", "time", "mem")


def _gpu_type(header: Mapping[str, str | None]) -> str | None:
    """Return the type in --gres=gpu:TYPE:N or --gpus-per-node=TYPE:N."""
    kind, colon, _ = (header.get("gpus-per-node") or "").partition(":")
    return gpu_type_in_gres(header.get("gres")) or (kind if colon else None)
