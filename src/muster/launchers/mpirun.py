"""mpirun: a rank per slot. Open MPI and MPICH spell the same things differently; the script asks which it is."""

from __future__ import annotations

from muster.launchers.base import RANK, Prologues, Wrap, prologue
from muster.model.plan import Flag, Plan, Reason
from muster.model.words import Fragment, Word

__all__ = ["Mpirun"]


class Mpirun:
    """A rank per slot, in the order of the hosts that the script writes."""

    name = "mpirun"
    keeps_signals = "mpirun's daemons, which pass nothing on"

    def prologues(self, plan: Plan) -> Prologues:
        del plan
        return ((RANK, ("stop", "meeting", "rank_mpi", "cpus", "start", "slurm_names", "jax", "go_mpi_rank")),)

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return (
            Flag(Fragment('-np "$((muster_nodes * muster_ntasks_per_node))"'), Reason("nodes × ranks of a node")),
            Flag(
                Fragment('"${muster_mpirun_ranks[@]}"'),
                Reason("hosts, binding, labels and the variables for every host, in the words of this mpirun"),
            ),
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return ("mpirun", *(flag.word for flag in self.flags(plan)), *prologue(RANK, wrap((*plan.gate, *plan.command))))

    def processes_here(self, plan: Plan) -> int:
        del plan
        return 1
