"""shell: one task with a terminal of its own, for `muster shell`. Not a way to start ranks, so nobody chooses it."""

from __future__ import annotations

from muster.launchers.base import Prologues, Wrap
from muster.model.plan import Flag, Plan, Reason
from muster.model.words import Fragment, Word

__all__ = ["Shell"]


class Shell:
    """A terminal on the first node of the job."""

    name = "shell"
    keeps_signals = ""

    def prologues(self, plan: Plan) -> Prologues:
        del plan
        return ()

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        flags = [
            Flag("--pty", Reason("a terminal, with job control")),
            Flag("--nodes=1", Reason("the first node of the job")),
            Flag("--ntasks=1", Reason("one shell")),
            Flag("--overlap", Reason("steps that are started from the shell share its resources")),
            Flag("--export=ALL", Reason("the environment that this script has set up")),
            Flag("--mpi=none", Reason("a shell is no rank")),
        ]
        if plan.shape.cpus_per_task:
            flags.append(
                Flag(Fragment('--cpus-per-task="$muster_cpus_per_task"'), Reason("the cores that were asked for"))
            )
        return (*flags, *plan.step_flags)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return ("srun", *(flag.word for flag in self.flags(plan)), *wrap(plan.command))

    def processes_here(self, plan: Plan) -> int:
        del plan
        return 1
