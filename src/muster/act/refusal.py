"""A job that sbatch does not take: its answer as an error with a sentence and a hint; the number that is too big."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from muster.errors import MusterError, NoSlurm, SchedulerSilent, SiteError
from muster.model.plan import Plan
from muster.rank.hostlist import expand
from muster.runner import MUNGE_HINT, MUNGE_IS_DOWN, ProgramResult, Runner, munge_is_down
from muster.slurm.fit import NODES, Misfit, Wanted, find_misfit
from muster.slurm.silence import is_silent, last_words
from muster.slurm.submit import is_without_cluster, parse_rejection


def accepted(answer: ProgramResult) -> None:
    """Return where sbatch agreed; raise what it said, as a sentence and a hint, where it did not."""
    if not answer.ok:
        raise refusal_of(answer)


def check_taken(
    ask: Callable[[], ProgramResult], explain: Callable[[], Misfit | None], say: Callable[[str], None]
) -> None:
    """Return where sbatch would take the job; say what it will wait for. Raise what sbatch said where it never would.

    `explain` finds the number that does not fit: Slurm only says that something does not. A trial is refused for nodes
    that are down too, but sbatch itself queues the job until they are back.
    """
    misfit = None
    for pause_s in (0, 1):  # a node that was away for a moment is back when it is looked for: Slurm is asked once more
        time.sleep(pause_s)
        answer = ask()
        if answer.ok:
            return
        if not parse_rejection(answer.stderr).is_of_nodes:
            break
        misfit = explain()
        if misfit is not None and misfit.may_pass:
            say(f"warning: the job waits: {misfit.sentence}; {misfit.hint}")
            return
        if misfit is not None:
            break
    raise refusal_of(answer, misfit)


def refusal_of(answer: ProgramResult, misfit: Misfit | None = None) -> MusterError:
    """Return the error for what sbatch answered; `misfit` is the number that does not fit, where one was found."""
    if is_without_cluster(answer.stderr):
        return NoSlurm("sbatch", is_installed=True)
    if is_silent(answer.stderr) or answer.status < 0 or not answer.stderr.strip():
        return silence_of(answer.argv[0], answer.status, answer.stderr)
    rejection = parse_rejection(answer.stderr)
    if misfit is None:
        return SiteError(rejection.sentence, hint=rejection.hint)
    return SiteError(f"Slurm refuses the job: {misfit.sentence} ({rejection.reason})", hint=misfit.hint)


def silence_of(program: str, status: int, stderr: str) -> SchedulerSilent:
    """Return the error for a client that brought no answer: how it ended, and what to try."""
    if munge_is_down():
        return SchedulerSilent(f"Slurm cannot be asked: {MUNGE_IS_DOWN}", hint=MUNGE_HINT)
    return SchedulerSilent(
        f"the Slurm controller does not answer: {program} {last_words(status, stderr)}",
        hint="try again in a minute: scontrol ping says whether a controller answers",
    )


def misfit_of(plan: Plan, runner: Runner, environment: Mapping[str, str], without: Sequence[str] = ()) -> Misfit | None:
    """Ask for the nodes of the partition, and return what the plan asks for that they do not have.

    `without`: nodes that the job is not to get, beside those that the plan excludes.
    """
    try:
        answer = runner(NODES.argv, env=environment, timeout_s=20)
    except MusterError:
        return None  # what sbatch said is still true
    wanted = _wanted(plan)
    wanted = replace(wanted, excluded=(*wanted.excluded, *without))
    return find_misfit(wanted, NODES.read(answer.stdout)) if answer.ok else None


def _wanted(plan: Plan) -> Wanted:
    header = {directive.name: directive.value or "" for directive in plan.directives}
    shape = plan.shape
    return Wanted(
        nodes=int(header.get("nodes", shape.nodes)),
        spares=plan.finish.spares if plan.finish is not None else 0,
        gpus=shape.gpus_per_node,
        partitions=tuple(filter(None, header.get("partition", "").split(","))),
        named=tuple(expand(header.get("nodelist", ""))),
        excluded=tuple(expand(header.get("exclude", ""))),
    )
