"""local: Muster's own supervisor starts the ranks on this machine."""

from __future__ import annotations

from muster.launchers.base import RANK, Prologues, Wrap, identity_part, prologue
from muster.model.plan import Flag, Plan
from muster.model.words import Word

__all__ = ["Local"]


class Local:
    """A process per rank, all of them here."""

    name = "local"
    keeps_signals = ""

    def prologues(self, plan: Plan) -> Prologues:
        return ((RANK, ("stop", "meeting", identity_part(plan), "cpus", "start", "slurm_names", "jax", "go_rank")),)

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return ()

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return prologue(RANK, wrap((*plan.gate, *plan.command)))

    def processes_here(self, plan: Plan) -> int:
        return plan.shape.ntasks
