"""horovod: ranks of MPI, started by mpirun or by srun, whose Horovod finds them all. Never chosen by itself."""

from __future__ import annotations

from msgspec.structs import replace

from muster.launchers.base import RANK, Launcher, Prologue
from muster.launchers.mpirun import Mpirun
from muster.launchers.srun import Srun
from muster.model.plan import Plan, Reason, Variable

_MPI = Reason("the ranks find each other by the MPI that starts them, not by a server of Horovod's own", "horovod")


class _Horovod(Launcher):
    """Another launcher's ranks, which look for their MPI before they start."""

    typed = "horovod"
    in_profiles = False
    joins_mpi = True

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return tuple(
            replace(prologue, start=(*prologue.start, "horovod")) if prologue.variable == RANK else prologue
            for prologue in super().prologues(plan)  # type: ignore[safe-super]  # of the launcher beside it
        )

    def variables(self) -> tuple[Variable, ...]:
        """Return Horovod's own choice as a variable.

        One that was built without MPI ends instead of waiting for a server.
        """
        return tuple(Variable(name, "mpi", _MPI) for name in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"))


class MpirunHorovod(_Horovod, Mpirun):
    """mpirun starts the ranks."""

    name = "mpirun+horovod"
    chosen_because = "Horovod's ranks are ranks of MPI: mpirun starts one for each slot"

    @property
    def site_name(self) -> str | None:
        return Mpirun.name


class SrunHorovod(_Horovod, Srun):
    """srun starts the ranks, by a PMI."""

    name = "srun+horovod"
    chosen_because = "Horovod's ranks are ranks of MPI, and you name srun's PMI"
    needs_pmi = True

    @property
    def site_name(self) -> str | None:
        return Srun.name
