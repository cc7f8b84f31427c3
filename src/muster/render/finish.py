"""The line and the part of a job that goes on after something went wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.launchers import launcher_named
from muster.launchers.base import Launcher, Part, Starter, python_of_ranks
from muster.model.finish import TASK, Finish
from muster.model.plan import Engine, Output, Plan
from muster.model.words import Fragment, Word, fold, named, quote


def keeps_attempts(plan: Plan) -> bool:
    """Return whether the job counts its attempts in its run directory."""
    return plan.finish is not None and plan.output is not Output.STREAM


def finish_parts(plan: Plan) -> Iterator[Part]:
    """Yield the part by which the script becomes the supervisor of its job."""
    if plan.finish is not None:
        yield "supervise"


def supervise_lines(plan: Plan) -> Iterator[str]:
    """Yield the line by which the script becomes the supervisor; what stands below it is one attempt."""
    finish = plan.finish
    if finish is None:
        return
    yield "# Muster's supervisor decides by these rules; all lines below are one start of the ranks, an attempt."
    words = [word for word in _rules(plan, finish) if word is not None]
    yield fold(("muster_supervise", finish.python or python_of_ranks(plan) or "python3", finish.supervisor, *words))


def _rules(plan: Plan, finish: Finish) -> Iterator[Word | None]:
    """Yield the rules, as words of the supervisor (life/supervise.py)."""
    launcher = launcher_named(plan.launcher)
    yield named("restarts", finish.restarts)
    if finish.spares:
        yield named("spares", finish.spares)
    if finish.links:
        yield named("links", finish.links)
    if finish.links_ahead:
        yield named("ahead", "yes")
    if finish.checkpoint:
        folder, *tasks = finish.checkpoint.split(TASK)
        words = "".join(f'"$SLURM_ARRAY_TASK_ID"{quote(text) if text else ""}' for text in tasks)
        yield Fragment(f"checkpoint={quote(folder)}{words}")
    if finish.save is not None:
        yield named("save", finish.save.before_s)
        yield named("signal", finish.save.signal)
        # Slurm tells the script of a queued job only; any other looks at the clock.
        if plan.output is Output.STREAM:
            yield named("clock", "yes")
        if launcher.signals_ranks != Launcher.signals_ranks:
            yield named("signals", str(launcher.signals_ranks))
    if any(directive.name == "requeue" for directive in plan.directives):
        yield named("requeue", "yes")
    if launcher.tells_failure != Launcher.tells_failure:
        yield named("tells", launcher.tells_failure)
    if launcher.agent:
        yield named("of", "agents")
    if launcher.starter(Engine.SLURM) is Starter.PROGRAM:
        yield named("starter", "program")
    if plan.label:
        yield named("lines", "labelled")
    if plan.within:
        yield named("within", "yes")
    yield named("grace", plan.grace_s)
