"""The #SBATCH header: every flag of the job stands there, and sbatch is given none but --output. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.job.request import Request, options_of
from muster.model.plan import Directive, Output, Plan, Reason
from muster.plan.sweep import array_directive
from muster.plan.terms import Terms
from muster.slurm.flags import SlurmFlag


def make_directives(
    request: Request, terms: Terms, plan: Plan, more_flags: Sequence[SlurmFlag]
) -> tuple[Directive, ...]:
    """Return the header of the job: what was asked, then what the site adds, then the flags that are passed on."""
    directives = {directive.name: directive for directive in _asked(request, terms, plan)}
    for directive in terms.directives:
        directives.setdefault(directive.name, directive)
    for name, value, origin, _ in more_flags:
        if name == "no-requeue" and "requeue" in directives:
            raise RequestError(
                f"{directives['requeue'].reason.origin} and {origin} contradict each other", hint="give one"
            )
        if name in directives and directives[name].value != value:
            own_directive = directives[name]
            message = (
                f"{origin} and --{name}={own_directive.value} ({own_directive.reason.origin}) contradict each other"
            )
            raise RequestError(message, hint="omit one of them")
        directives[name] = Directive(name, value, Reason("set by you", origin))
    return tuple(directives.values())


def _asked(request: Request, terms: Terms, plan: Plan) -> Iterator[Directive]:
    shape = plan.shape
    reasons = dict(shape.reasons)
    yield Directive("job-name", plan.job_name, _set(request, "job_name", "the command's name"))
    if plan.sweep is not None:
        yield array_directive(request, plan.sweep)
    spares = plan.finish.spares if plan.finish is not None else 0
    yield Directive("nodes", str(shape.nodes + spares), reasons["nodes"])
    if spares:
        yield Directive("no-kill", None, Reason("the job outlives a node that dies", request.origin("spares")))
    if plan.finish is not None and plan.finish.save is not None and plan.output is not Output.STREAM:
        save_reason = Reason("Slurm tells the script, which tells the ranks", request.origin("save_before"))
        yield Directive("signal", f"B:USR1@{plan.finish.save.before_s}", save_reason)
    yield Directive("ntasks-per-node", str(shape.ntasks_per_node), reasons["ntasks_per_node"])
    if shape.cpus_per_task:
        yield Directive("cpus-per-task", str(shape.cpus_per_task), reasons["cpus_per_task"])
    yield from _gpus(request, terms, plan, reasons["gpus_per_node"])
    yield from _as_written(request)
    yield _export(request, terms)
    yield from _requeue(request, terms, links=plan.finish is not None and plan.finish.links > 0)
    base = PurePosixPath(plan.working_directory)
    for field in ("output", "error"):
        value = getattr(request, field)
        if value is not None:
            yield Directive(field, str(base / value), _set(request, field))


def _requeue(request: Request, terms: Terms, *, links: bool) -> Iterator[Directive]:
    """Return whether Slurm may run the job again: only where somebody asked for it, or the site leaves no choice."""
    if terms.requeue == "never" and request.requeue:
        raise RequestError(
            f"{request.origin('requeue')}: {terms.requeue_reason.text}", hint="omit it, and submit the job again"
        )
    if request.requeue or terms.requeue == "always" or (links and terms.requeue != "never"):
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


def _as_written(request: Request) -> Iterator[Directive]:
    """Yield the options that are one directive each: the option itself says which."""
    for field, option in options_of().items():
        value = getattr(request, field) if option.directive else None
        if option.directive and value is not None and value is not False:
            otherwise = "these nodes failed under earlier jobs (muster nodes)" if field == "exclude" else ""
            yield Directive(option.directive, None if value is True else str(value), _set(request, field, otherwise))


def _gpus(request: Request, terms: Terms, plan: Plan, reason: Reason) -> Iterator[Directive]:
    if request.gres is not None:
        yield Directive("gres", request.gres, _set(request, "gres"))
        if "gpu" in request.gres:
            return
    gpus = plan.shape.gpus_per_node
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
