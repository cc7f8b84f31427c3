"""horovod: ranks of MPI, started by mpirun or by srun, whose Horovod finds them all. Never chosen by itself."""

from __future__ import annotations

from muster.launchers.base import RANK, Launcher, Prologues, Wrap
from muster.model.plan import Flag, Plan
from muster.model.words import Word

__all__ = ["Horovod"]


class Horovod:
    """Another launcher's ranks, which look for their MPI before they start."""

    def __init__(self, starter: Launcher) -> None:
        self._starter = starter
        self.name = f"{starter.name}+horovod"
        self.keeps_signals = starter.keeps_signals

    def prologues(self, plan: Plan) -> Prologues:
        return tuple(
            (variable, (*parts[:-1], "horovod", parts[-1]) if variable == RANK else parts)
            for variable, parts in self._starter.prologues(plan)
        )

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        return self._starter.flags(plan)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return self._starter.words(plan, wrap)

    def processes_here(self, plan: Plan) -> int:
        return self._starter.processes_here(plan)
