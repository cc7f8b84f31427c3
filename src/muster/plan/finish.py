"""How a job is watched, and goes on after something went wrong: what was asked for, and what cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from muster.errors import Refusal, RequestError, refused
from muster.facts import Facts
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.finish import TASK, Finish, Save
from muster.model.plan import Directive, Engine, Hang, Reason, Variable
from muster.model.words import Fragment, Word
from muster.plan.asked import Asked
from muster.plan.terms import Terms
from muster.rank import contract

_HANG_S = 1800
_FIELDS = ("restart", "spares", "checkpoint", "save_before")


def make_finish(asked: Asked, facts: Facts, launcher: Launcher) -> Finish | None:
    """Return how the job goes on; None: nothing of the kind was asked for."""
    request, engine = asked.request, asked.engine
    is_queued = not (asked.within or asked.stream)
    links = request.links if request.until_done and is_queued else 0
    asked_fields = [*(field for field in _FIELDS if getattr(request, field)), *(["until_done"] if links else [])]
    if request.given("links") and not request.until_done:
        raise RequestError(f"{request.origin('links')}: it has no effect without --until-done", hint="--until-done")
    if request.given("save_signal") and not request.save_before:
        raise RequestError(
            f"{request.origin('save_signal')}: it has no effect without --save-before", hint="--save-before 5m"
        )
    if not asked_fields:
        return None
    if engine is Engine.HERE or not launcher.starts_ranks:
        raise RequestError(
            f"{request.origin(asked_fields[0])}: it is for jobs of Slurm",
            hint="omit it here; muster submit queues a job that has it",
        )
    if request.spares:
        _check_spares(request, is_within=asked.within)
    from pathlib import PurePosixPath

    checkpoint = request.checkpoint and str(PurePosixPath(asked.directory) / request.checkpoint)
    # A node that dies is not a fault of the script's: each spare allows one start more.
    return Finish(
        request.restart + request.spares,
        request.spares,
        checkpoint,
        _make_save(request),
        links,
        f"{facts.package}/life",
        facts.own_python or "",
        # Where jobs cannot queue any, the links are queued ahead.
        links_ahead=links > 0 and asked.site.profile.launch.queues_from_jobs is False,
    )


def _make_save(request: Request) -> Save | None:
    """Return when the ranks are told to save; a time limit that is not longer leaves no time to train."""
    if request.save_before is None:
        return None
    if request.time is not None and request.time.seconds and request.time.seconds <= request.save_before:
        raise RequestError(
            f"{request.origin('save_before')} is not shorter than the time limit, {request.origin('time')}",
            hint="give a longer --time, or a shorter --save-before",
        )
    return Save(request.save_before, request.save_signal)


def check_limit(request: Request, finish: Finish | None, directives: Iterable[Directive]) -> None:
    """Stop where something depends on the time limit of the job, or on its array, and the job has none."""
    if finish is None:
        return
    values = {directive.name: directive.value for directive in directives}
    _check_tasks(request, finish, values.get("array"))
    if not (finish.save or finish.links):
        return
    unlimited = request.time is not None and not request.time.seconds
    if "time" not in values or unlimited:
        asked_option = request.origin("save_before" if finish.save else "until_done")
        raise refused((Refusal("no-time-limit", f"{asked_option}: the job has no time limit", "--time TIME"), ""))


def _check_tasks(request: Request, finish: Finish, array: str | None) -> None:
    """Stop where tasks that run side by side would go on from each other's checkpoints."""
    if not finish.checkpoint:
        return
    named_per_task = TASK in finish.checkpoint
    if array is None and named_per_task:
        raise RequestError(
            f"{request.origin('checkpoint')}: {TASK} is the task of an array, and the job is none", hint=f"omit {TASK}"
        )
    # Tasks that follow each other, one at a time, may be one training.
    if array is not None and not named_per_task and not array.endswith("%1"):
        raise RequestError(
            f"{request.origin('checkpoint')}: the tasks of the array would go on from each other's checkpoints",
            hint=f"--checkpoint {request.checkpoint}/{TASK}",
        )


def _check_spares(request: Request, *, is_within: bool) -> None:
    """Stop where there cannot be spare nodes, or nothing could make use of them."""
    spares = request.origin("spares")
    if is_within:
        raise RequestError(
            f"{spares}: this allocation cannot get more nodes", hint="omit it, or type it outside of the allocation"
        )
    for field, noun in (("stage_env", "copies"), ("stage", "copies"), ("stage_out", "copies"), ("nodelist", "names")):
        if getattr(request, field):
            raise RequestError(
                f"{spares}: a spare node has none of the {noun} of {request.origin(field)}", hint="omit one of them"
            )


def finish_variables(finish: Finish | None) -> tuple[Variable, ...]:
    """Return what each rank is told of its attempt."""
    if finish is None:
        return ()
    values: list[tuple[str, Word, str]] = [
        (contract.ATTEMPT, Fragment('"${muster_number:-1}"'), "which start of the ranks this is, counted from 1"),
        (contract.RESTARTS, str(finish.restarts), "how often they may start again in this allocation"),
    ]
    if finish.checkpoint:
        why = "the newest whole checkpoint, looked for before the ranks start; empty where there is none"
        values.append((contract.CHECKPOINT, Fragment('"${MUSTER_CHECKPOINT:-}"'), why))
    if finish.save is not None:
        values += [
            (contract.SAVE_SIGNAL, finish.save.signal, "at this signal a rank saves"),
            (contract.SAVE_RUN, Fragment('"${MUSTER_SAVE_RUN:-}"'), "the ranks of this run are known by it"),
            (contract.END, Fragment('"${MUSTER_END:-}"'), "when the job's time is over"),
        ]
    short = "what each rank is told of its start"
    return tuple(Variable(name, value, Reason(why, short=short)) for name, value, why in values)


def make_hang(asked: Asked, terms: Terms, facts: Facts, launcher: Launcher) -> Hang | None:
    """Return how the job is watched; None: it is not. Unasked only a queued job is."""
    request = asked.request
    is_watched = launcher.starts_ranks and asked.engine is Engine.SLURM and request.sweep_per_node is None
    if facts.own_python is None or not is_watched:
        return None
    if request.hang is not None:
        seconds, reason = request.hang, Reason(request.set_by("hang"), request.origin("hang"))
    elif not asked.queued:
        return None
    elif terms.hang_s is not None:
        seconds, reason = terms.hang_s, terms.hang_reason
    else:
        seconds, reason = _HANG_S, Reason("nobody sits beside a queued job; --hang TIME, or --hang off")
    if not seconds:
        return None
    return Hang(seconds, facts.own_python, reason, ends=request.restart > 0, folder=facts.own_folder)
