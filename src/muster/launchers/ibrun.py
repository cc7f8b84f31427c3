"""ibrun: TACC's own starter. It knows the allocation, and starts a rank per slot with the MPI that is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.launchers.base import Part, Prologue, Wrap, rank_prologue, rank_words
from muster.launchers.mpirun import ByMpirun, report_parts
from muster.model.plan import Engine, Flag, Plan, Reason
from muster.model.words import Fragment, Word


class Ibrun(ByMpirun):
    """A rank per slot, node by node; the environment goes with it."""

    name = "ibrun"
    engines = frozenset({Engine.SLURM})
    labels_lines = False
    stand_in = "mpirun"
    reaches_by_ssh = ()
    keeps_signals = "ibrun's daemons, which pass nothing on"
    sets_mpi_variables = True
    wrong_place = ("ibrun works inside a job of Slurm only", "use --launcher local on this machine")

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return (rank_prologue(plan, "rank_mpi", after=("slurm_names", "jax"), last=("ends", "left", "go_mpi_rank")),)

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return (Flag(Fragment('-np "$((muster_nodes * muster_ntasks_per_node))"'), Reason("nodes × ranks of a node")),)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        command = rank_words(plan, wrap)
        return ("ibrun", *(flag.word for flag in self.flags(plan)), *command)

    def prepare(self, plan: Plan, names: Sequence[str]) -> Iterator[str]:
        """Yield the hosts in rank order, by which a rank knows its node."""
        del plan, names
        yield 'MUSTER_NODES=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr "\\n" " ") && export MUSTER_NODES'

    def watch(self, report: str) -> Iterator[str]:
        """Yield nothing: the site's ibrun looks after its starters."""
        del report
        yield from ()

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        return (*report_parts(plan), "hydra_status")
