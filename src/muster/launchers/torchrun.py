"""torchrun: one agent on each node, started by srun; the agents meet on the first host and start the ranks.

No --node-rank (it is inert with c10d), an id from job, step and restart, and the host of the meeting point is
told that it is the host.
"""

from __future__ import annotations

from muster.launchers.base import KEEPER, RANK, WORKER, Prologues, Wrap, identity_part, prologue
from muster.launchers.srun import step_flags
from muster.model.plan import Engine, Flag, Plan, Reason
from muster.model.words import Fragment, Word

__all__ = ["Torchrun", "agent_words"]


# Checked first or not: how an agent starts.
_AGENT_PARTS = {False: ("agent", "go_agent"), True: ("agent", "checked_agent", "go_agent")}


def agent_words(plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
    """One agent, its keeper and its ranks, all of them in the image; the count tells where torchrun's words go.

    The agents are checked, not the ranks: an agent's own store holds the port as soon as there are any.
    """
    keeper = (plan.python, "-I", "-S", "-c", Fragment(f'"${KEEPER}"'), "label" if plan.label else "plain")
    python = wrap((*plan.gate, *keeper))
    return prologue(RANK, (str(len(python)), *python, *prologue(WORKER, plan.command)))


class Torchrun:
    """An agent per node, which starts the ranks."""

    name = "torchrun"
    keeps_signals = "torchrun's agents, which it ends with their ranks"

    def prologues(self, plan: Plan) -> Prologues:
        return (
            (RANK, ("stop", "meeting", identity_part(plan), *_AGENT_PARTS[bool(plan.gate)])),
            (WORKER, ("cpus", "slurm_names", "no_mpi", "jax", "worker")),
            (KEEPER, ("agent_keeper.py",)),
        )

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        if plan.engine is Engine.HERE:
            return ()
        cpus = '"$((muster_cpus_per_task * muster_ntasks_per_node))"' if plan.shape.cpus_per_task else None
        return (
            *step_flags(plan, tasks_per_node="1", cpus=cpus, label=False),
            Flag("--input=all", Reason("torchrun decides which agent starts rank 0; that rank alone reads the input")),
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        agent = agent_words(plan, wrap)
        return agent if plan.engine is Engine.HERE else ("srun", *(flag.word for flag in self.flags(plan)), *agent)

    def processes_here(self, plan: Plan) -> int:
        return plan.shape.nodes


class MpirunTorchrun:
    """mpirun starts one agent on each node: for sites where mpirun reaches nodes that srun's step does not."""

    name = "mpirun+torchrun"
    keeps_signals = "mpirun's daemons, which pass nothing on"

    def prologues(self, plan: Plan) -> Prologues:
        return (
            (RANK, ("stop", "meeting", "rank_mpi", *_AGENT_PARTS[bool(plan.gate)])),
            (WORKER, ("cpus", "slurm_names", "no_mpi", "jax", "worker")),
            (KEEPER, ("agent_keeper.py",)),
        )

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return (
            Flag(Fragment('-np "$muster_nodes"'), Reason("one agent on each node")),
            Flag(Fragment('"${muster_mpirun_agents[@]}"'), Reason("the hosts, and the variables for every host")),
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return ("mpirun", *(flag.word for flag in self.flags(plan)), *agent_words(plan, wrap))

    def processes_here(self, plan: Plan) -> int:
        del plan
        return 1
