"""Where a launch happens: over the allocation it stands in, in one it asks Slurm for, or on this machine."""

from __future__ import annotations

from collections.abc import Mapping

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.launchers import known_launcher
from muster.model.plan import Engine
from muster.older import StrEnum
from muster.runner import Runner, run
from muster.slurm.granted import job_around
from muster.units import whole_number

# (rank, number of ranks, who sets them): variables of a process that is one of several.
_RANKS_OF = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"),
    ("PMI_RANK", "PMI_SIZE", "mpirun"),
)


class RunPlace(StrEnum):
    """The engine of a `run`, and how it gets its nodes."""

    HERE = "here"
    WITHIN = "within"
    ALLOCATE = "allocate"


def stands_in_allocation(facts: Facts) -> bool:
    """Return whether this process was started inside a Slurm job: by salloc, sbatch or srun."""
    return job_around(facts.environment) is not None


def place_of(request: Request, facts: Facts, runner: Runner = run) -> tuple[RunPlace, str]:
    """Return the place, and the reason for it in words. A Slurm that is set up and does not answer is an error."""
    if request.here or _starts_here_only(request.launcher):
        return RunPlace.HERE, "asked for: " + request.origin("here" if request.here else "launcher")
    job = job_around(facts.environment)
    if job is not None:
        return RunPlace.WITHIN, f"inside job {job}"
    from muster.look.controller import SlurmHere, slurm_here

    slurm = slurm_here(facts.environment, runner)
    return RunPlace.ALLOCATE if slurm is SlurmHere.ANSWERS else RunPlace.HERE, slurm.value


def _starts_here_only(launcher: str) -> bool:
    launcher_class = known_launcher(launcher)
    return launcher_class is not None and launcher_class.engines == {Engine.HERE}


def refuse_in_every_rank(environment: Mapping[str, str], *, on_terminal: bool) -> None:
    """Refuse `srun -n4 muster run …`, which would start the run four times.

    A shell on a terminal (srun --pty) is one task.
    """
    for rank, size, launcher in _RANKS_OF:
        count = environment.get(size, "")
        alone = on_terminal and environment.get(rank) == "0"
        if environment.get(rank, "").isdigit() and (whole_number(count) or 0) > 1 and not alone:
            raise RequestError(
                f"this is rank {environment[rank]} of the {count} that {launcher} has started ({rank}, {size}): "
                "each of them would start the whole run",
                hint=f"type muster run without {launcher}: it starts the ranks itself; "
                f"if an earlier launch left these variables: unset {rank} {size}",
            )
