"""`--launcher horovod`: which launcher starts Horovod's ranks, and what they have to be told. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.errors import RequestError
from muster.job.request import Request
from muster.model.plan import Engine, Reason, Variable
from muster.plan.site_terms import reason_for
from muster.sites.load import Site

__all__ = ["HOROVOD", "horovod_variables", "pmi_of", "started_by", "starter_of"]

HOROVOD = "horovod"
_SUFFIX = f"+{HOROVOD}"


def started_by(launcher: str) -> str:
    """What starts the ranks of this launcher: mpirun or srun under Horovod, else the launcher itself."""
    return launcher.removesuffix(_SUFFIX)


def starter_of(request: Request, site: Site, engine: Engine) -> tuple[str, Reason]:
    """mpirun+horovod where mpirun may be used, srun+horovod where it may not or a PMI is named."""
    launch = site.profile.launch
    if request.mpi is not None and engine is Engine.SLURM:
        return f"srun{_SUFFIX}", Reason("Horovod's ranks are ranks of MPI, and you name srun's PMI", "--mpi")
    if engine is Engine.HERE or launch.allowed is None or "mpirun" in launch.allowed:
        return f"mpirun{_SUFFIX}", Reason("Horovod's ranks are ranks of MPI: mpirun starts one for each slot")
    why = launch.refused.get("mpirun", "mpirun does not start ranks there")
    return f"srun{_SUFFIX}", reason_for(site, "launch.refused", why)


def pmi_of(request: Request, site: Site, stack: str | None) -> str:
    """What srun is told of MPI for Horovod: without a PMI each rank would be a world of its own."""
    launch = site.profile.launch
    if request.mpi == "none":
        raise RequestError(
            "--mpi none starts each of Horovod's ranks as a world of its own",
            hint="--mpi pmix or --mpi pmi2; where mpirun may be used, leave it away and mpirun starts them",
        )
    found = request.mpi or launch.mpi_by_stack.get(stack or "") or launch.mpi
    if found is None or found == "none":
        raise RequestError(
            f"the profile of {site.name} does not say by which PMI srun starts ranks of MPI, and Horovod needs one",
            hint="--mpi pmix or --mpi pmi2, whichever your MPI was built with; srun --mpi=list shows what is there",
        )
    return found


def horovod_variables(launcher: str) -> Iterator[Variable]:
    """Horovod's own choice, said aloud: one that was built without MPI ends instead of waiting for a server."""
    if not launcher.endswith(_SUFFIX):
        return
    why = Reason("the ranks find each other by the MPI that starts them, not by a server of Horovod's own", HOROVOD)
    yield Variable("HOROVOD_CONTROLLER", "mpi", why)
    yield Variable("HOROVOD_CPU_OPERATIONS", "mpi", why)
