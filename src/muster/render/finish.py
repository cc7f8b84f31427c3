"""The lines and parts of a job that goes on after something went wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.launchers import launcher_named
from muster.launchers.base import Part, Starter
from muster.model.finish import TASK, Finish
from muster.model.plan import Engine, Output, Plan
from muster.model.words import fold, named, quote
from muster.render.parts import compose, kept, part


def keeps_attempts(plan: Plan) -> bool:
    """Return whether the job counts its attempts in its run directory."""
    return plan.finish is not None and plan.output is not Output.STREAM


def finish_parts(plan: Plan) -> Iterator[Part]:
    """Yield the parts of the script itself."""
    if plan.finish is not None:
        yield "again"
        yield launcher_named(plan.launcher).tells_failure
        if plan.finish.spares:
            yield "spares"
            if _has_deputy(plan):
                yield "deputy"
        if plan.finish.checkpoint:
            yield "checkpoint"
        if plan.finish.save is not None:
            yield "save"
        if plan.finish.links:
            yield "chain"


def finish_texts(plan: Plan) -> Iterator[str]:
    """Yield the texts that the script keeps besides its parts."""
    if plan.finish is not None and plan.finish.checkpoint:
        yield kept("muster_search", part("checkpoint.py"))
    if plan.finish is not None and plan.finish.save is not None:
        yield kept("muster_signals", compose(("processes", launcher_named(plan.launcher).signals_ranks)))
    if _has_deputy(plan):
        yield kept("muster_deputy", part("deputy_node"))


def _has_deputy(plan: Plan) -> bool:
    """Return whether a deputy looks after the host of the script: with spare nodes Slurm does not."""
    has_spares = plan.finish is not None and plan.finish.spares > 0
    return has_spares and keeps_attempts(plan) and any(directive.name == "requeue" for directive in plan.directives)


def spare_lines(plan: Plan) -> Iterator[str]:
    """Yield the line that holds the spare nodes back."""
    if plan.finish is not None and plan.finish.spares:
        more = (named("requeue", "yes"),) if _has_deputy(plan) else ()
        yield fold(("muster_keep_spares", named("spares", plan.finish.spares), *more))


def link_lines(plan: Plan) -> Iterator[str]:
    """Yield the line that begins this link of the job, and queues the next one."""
    if plan.finish is not None and plan.finish.links:
        more = (named("ahead", "yes"),) if plan.finish.links_ahead else ()
        yield fold(("muster_chain", named("links", plan.finish.links), *more))


def save_lines(plan: Plan) -> Iterator[str]:
    """Yield the line that gets ready to tell the ranks; it stands early, since Slurm may signal early."""
    if plan.finish is not None and plan.finish.save is not None:
        # Slurm tells the script of a queued job only; any other looks at the clock.
        clock = (named("by", "clock"),) if plan.output is Output.STREAM else ()
        words = (named("seconds", plan.finish.save.before_s), named("signal", plan.finish.save.signal))
        yield fold(("muster_save_before", *words, *clock))


def checkpoint_lines(plan: Plan) -> Iterator[str]:
    """Yield the line that looks for the newest whole checkpoint."""
    if plan.finish is not None and plan.finish.checkpoint:
        folder, *tasks = plan.finish.checkpoint.split(TASK)
        words = "".join(f'"$SLURM_ARRAY_TASK_ID"{quote(text) if text else ""}' for text in tasks)
        yield f"muster_find_checkpoint {quote(folder)}{words}"


def attempt_lines(plan: Plan, finish: Finish, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the step as a function, and the call that runs it until the job is done."""
    yield "muster_ranks() {"
    for line in lines:
        yield f"    {line}"
    yield "}"
    by_program = launcher_named(plan.launcher).starter(Engine.SLURM) is Starter.PROGRAM
    words = [named("times", finish.restarts), named("starter", "program" if by_program else "step")]
    if plan.label:
        words.append(named("lines", "labelled"))
    yield fold(("muster_again", *words))
    if finish.save is not None:
        yield "muster_end_saves"
    if finish.links:
        yield "muster_end_link"
