"""How a job goes on after something went wrong: what was asked for, and what cannot be. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.finish import Finish
from muster.model.plan import Engine, Reason, Variable
from muster.model.words import Fragment
from muster.rank import contract

__all__ = ["finish_variables", "make_finish"]


def make_finish(request: Request, launcher: Launcher, engine: Engine, directory: str) -> Finish | None:
    """Return how the job goes on; None: nothing of the kind was asked for."""
    if not (request.restart or request.checkpoint):
        return None
    if engine is Engine.HERE or not launcher.starts_ranks:
        option = request.origin("restart" if request.restart else "checkpoint")
        raise RequestError(f"{option}: it is for jobs of Slurm", hint="omit it here")
    checkpoint = request.checkpoint and str(PurePosixPath(directory) / request.checkpoint)
    return Finish(restarts=request.restart, checkpoint=checkpoint)


def finish_variables(finish: Finish | None) -> tuple[Variable, ...]:
    """Return what each rank is told of its attempt."""
    if finish is None:
        return ()
    attempt = Fragment('"${muster_number:-1}"')
    found = [
        Variable(contract.ATTEMPT, attempt, Reason("which start of the ranks this is, counted from 1")),
        Variable(contract.RESTARTS, str(finish.restarts), Reason("how often they may start again in this allocation")),
    ]
    if finish.checkpoint:
        why = Reason("the newest whole checkpoint, looked for before the ranks start; empty where there is none")
        found.append(Variable(contract.CHECKPOINT, Fragment('"$MUSTER_CHECKPOINT"'), why))
    return tuple(found)
