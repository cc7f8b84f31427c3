"""What a launcher is: how the ranks of a plan start, as words. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from muster.model.plan import Engine, Flag, Plan
from muster.model.words import Fragment, Word

__all__ = ["KEEPER", "RANK", "WORKER", "Launcher", "Prologues", "Wrap", "identity_part", "prologue"]

Prologues = tuple[tuple[str, tuple[str, ...]], ...]

# Puts a command into the image.
Wrap = Callable[[Sequence[Word]], tuple[Word, ...]]

# The shell variables of the script that hold a prologue's text.
RANK = "muster_task"
WORKER = "muster_worker"
KEEPER = "muster_keeper"


class Launcher(Protocol):
    """One way to start ranks."""

    name: str
    keeps_signals: str
    """Who gets the signal of sbatch's --signal in the place of the ranks; empty: the ranks do."""

    def prologues(self, plan: Plan) -> Prologues:
        """The parts of render/shell that each started process runs first, by the script's variable for them."""
        ...

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        """The launcher's own options, each with its reason."""
        ...

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        """The whole line that starts the plan's command as its ranks; `wrap` goes around what runs in the image."""
        ...

    def processes_here(self, plan: Plan) -> int:
        """How many of that line the supervisor starts on a machine without Slurm."""
        ...


def identity_part(plan: Plan) -> str:
    """Where a process that we or srun start learns who it is."""
    return "rank_local" if plan.engine is Engine.HERE else "rank_slurm"


def prologue(variable: str, command: Sequence[Word]) -> tuple[Word, ...]:
    """`command`, started by the prologue that the script keeps in `variable`."""
    return ("sh", "-c", Fragment(f'"${variable}"'), "muster", *command)
