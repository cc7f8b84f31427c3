"""The line and the part of a job that goes on after something went wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.launchers import launcher_named
from muster.launchers.base import Launcher, Starter, python_of_ranks
from muster.model.finish import TASK, Finish
from muster.model.plan import Engine, Output, Plan
from muster.model.words import Fragment, Word, fold, named, quote


def supervise_lines(plan: Plan) -> Iterator[str]:
    """Yield the line by which the script becomes the supervisor; what stands below it is one attempt."""
    finish = plan.finish
    if finish is None:
        return
    yield "# Muster's supervisor decides by these rules; all lines below are one start of the ranks, an attempt."
    words = [word for word in _rules(plan, finish) if word is not None]
    yield fold(("muster_supervise", finish.python or python_of_ranks(plan) or "python3", finish.supervisor, *words))


def _rules(plan: Plan, finish: Finish) -> Iterator[Word]:
    """Yield the rules, as words of the supervisor (life/supervise.py)."""
    launcher = launcher_named(plan.launcher)
    save, is_program = finish.save, launcher.starter(Engine.SLURM) is Starter.PROGRAM
    own_signals = launcher.signals_ranks if launcher.signals_ranks != Launcher.signals_ranks else None
    # Slurm tells the script of a queued job that its time is nearly over; any other looks at the clock.
    clock = save is not None and plan.output is Output.STREAM
    requeue = any(directive.name == "requeue" for directive in plan.directives)
    words: tuple[tuple[str, Word | int | None], ...] = (
        ("restarts", finish.restarts),
        ("spares", finish.spares or None),
        ("links", finish.links or None),
        ("ahead", "yes" if finish.links_ahead else None),
        ("checkpoint", _folder(finish.checkpoint) if finish.checkpoint else None),
        ("save", save.before_s if save else None),
        ("signal", save.signal if save else None),
        ("signals", str(own_signals) if save and own_signals else None),
        ("clock", "yes" if clock else None),
        ("requeue", "yes" if requeue else None),
        ("tells", launcher.tells_failure if launcher.tells_failure != Launcher.tells_failure else None),
        ("of", "agents" if launcher.agent else None),
        ("starter", "program" if is_program else None),
        ("lines", "labelled" if plan.label else None),
        ("within", "yes" if plan.within else None),
        ("grace", plan.grace_s),
    )
    yield from (named(name, word) for name, word in words if word is not None)


def _folder(checkpoint: str) -> Fragment:
    """Return the folder of the checkpoints, as the script knows it: each task of an array has its own."""
    folder, *tasks = checkpoint.split(TASK)
    words = "".join(f'"$SLURM_ARRAY_TASK_ID"{quote(text) if text else ""}' for text in tasks)
    return Fragment(f"{quote(folder)}{words}")
