"""The one way from a request to a job, for the command line and for the Python interface.

A launch is prepared: its plan is made, and looked at for what would fail. The caller shows the notes of the plan. Then
the launch is queued or run, and on the way the files that its ranks will look for are written: no caller can forget
them. Nothing here prints; `say` is told what takes long. `bench --submit` and `build --job` start the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from muster.facts import Facts
from muster.model.plan import Engine, Note, Plan

if TYPE_CHECKING:
    from muster.act.keep import Kept
    from muster.act.submit import Submitted
    from muster.act.supervise import Outcome
    from muster.job.request import Request
    from muster.look.place import RunPlace

Say = Callable[[str], None]


class Prepared(msgspec.Struct, frozen=True):
    """A launch that nothing is known to stop."""

    plan: Plan
    facts: Facts
    excluded: tuple[Note, ...]
    """The nodes that failed under earlier jobs, which this one does not get."""

    notes: tuple[Note, ...]
    """What to say before the launch is queued or run."""

    is_within: bool = False
    """Whether the launch runs over the allocation that this process stands in."""


def prepare_job(request: Request, facts: Facts, typed: Sequence[str]) -> Prepared:
    """Return the plan of a job that is to be queued, and what to say before it is."""
    from muster.act.prepare import plan_for
    from muster.act.record import state_directory
    from muster.follow.node_memory import leave_out
    from muster.follow.scheduler import Scheduler
    from muster.look.cluster import cluster_name

    request, excluded = leave_out(
        request,
        state_directory(facts.environment, facts.home),
        cluster_name(facts.environment),
        states=Scheduler(facts.environment).states_of,
        fits=partial(_fits, request, facts, typed),
    )
    plan = plan_for(request, facts, typed, starts_now=True)
    notes = (*plan.notes, *_look_before_start(request, plan, facts), *_notes_on_hangs(plan, facts))
    return Prepared(plan, facts, tuple(excluded), notes)


def _fits(request: Request, facts: Facts, typed: Sequence[str], without: Sequence[str]) -> bool:
    """Return whether the cluster has enough nodes for a job without these; True where it has not enough with them."""
    from muster.act.prepare import plan_for
    from muster.act.refusal import misfit_of
    from muster.runner import run
    from muster.slurm.variables import scheduler_environment

    clean = scheduler_environment(facts.environment)
    plan = plan_for(request, facts, typed)
    misfit = misfit_of(plan, run, clean, without)
    if misfit is None:
        return True
    misfit_with_all = misfit_of(plan, run, clean)
    return misfit_with_all is not None and misfit.may_pass >= misfit_with_all.may_pass


def prepare_run(request: Request, facts: Facts, typed: Sequence[str], place: RunPlace) -> Prepared:
    """Return the plan of a launch that is to run now, in its place, and what to say before it does."""
    from muster.act.prepare import plan_for
    from muster.look.place import RunPlace

    is_within = place is RunPlace.WITHIN
    if is_within:
        from muster.look.size import sized_by_allocation

        request = sized_by_allocation(request, facts)
    engine = Engine.HERE if place is RunPlace.HERE else Engine.SLURM
    plan = plan_for(request, facts, typed, engine=engine, is_within=is_within, stream=True, starts_now=True)
    return Prepared(plan, facts, (), (*plan.notes, *_look_before_start(request, plan, facts)), is_within)


def queue(launch: Prepared, say: Say = lambda _: None) -> Submitted:
    """Queue the launch as a job of Slurm, and return the job."""
    from pathlib import Path

    from muster.act.record import state_directory
    from muster.act.submit import Submission
    from muster.look.cluster import cluster_name

    facts = launch.facts
    place_parts(launch.plan, say)
    return Submission(
        launch.plan,
        parent=Path(facts.working_directory) / "muster-runs",
        state=state_directory(facts.environment, facts.home),
        cluster=cluster_name(facts.environment),
        environment=facts.environment,
        say=say,
    ).queue()


def run_on_nodes(launch: Prepared, *, say: Say, say_always: Say, wait_words: Callable[[str], str]) -> Kept:
    """Run the launch in an allocation, and return what became of it.

    `say_always` is told that the ranks wait for nodes of their own job; `wait_words` says why a job waits.
    """
    from muster.act.launch import run_allocated, run_within

    place_parts(launch.plan, say)
    if launch.is_within:
        return run_within(launch.plan, launch.facts.environment, say_always)
    return run_allocated(launch.plan, launch.facts.environment, say=say, wait_words=wait_words)


def run_here(launch: Prepared, say: Say) -> Outcome:
    """Run the launch on this machine, and return how its ranks ended."""
    from muster.act import launch_here

    place_parts(launch.plan, say)
    return launch_here.run_here(launch.plan, launch.facts.environment)


def place_parts(plan: Plan, say: Say) -> None:
    """Write what the ranks of a plan will look for: the rank library, the program of --check, the packed archives."""
    for role in plan.roles:
        place_parts(role.plan, say)
    if plan.rank_library is not None:
        from muster.act.rank_library import make_rank_library

        make_rank_library(plan.rank_library)
    if plan.gate:
        from pathlib import Path

        from muster.parts import service

        service("gate")(Path(plan.gate[1]))
    if plan.staging is not None and plan.staging.things:
        from muster.stage.pack import place_all

        place_all(plan.staging, say)


def _look_before_start(request: Request, plan: Plan, facts: Facts) -> list[Note]:
    from muster.act.preflight import check_before_start

    notes = check_before_start(plan, facts.environment)
    if request.module and plan.engine is Engine.SLURM:
        from muster.look.modules import missing_module
        from muster.runner import run

        text = missing_module(request.module, plan.prelude, facts.environment, run)
        notes += [Note(text, warning=True)] if text else []
    return notes


def _notes_on_hangs(plan: Plan, facts: Facts) -> list[Note]:
    """Say that the watch of hangs will know no line, where that is so here: the nodes are mostly alike."""
    if plan.hang is None or plan.ready is not None or plan.image.ready is not None:
        return []
    from muster.parts import service

    why = service("unseen-line")(facts.environment)
    text = f"of a rank that hangs the line will not be known: {why}; --stacks-ready shows it, --hang off ends the watch"
    return [Note(text)] if why else []
