"""What a launcher is: how the ranks of a plan start, as words. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.plan.model import Flag, Plan
from muster.plan.words import Fragment, Word

__all__ = ["RANK", "WORKER", "Launcher", "prologue"]

# The shell variables of the script that hold a prologue's text.
RANK = "muster_task"
WORKER = "muster_worker"


class Launcher(Protocol):
    """One way to start ranks."""

    name: str

    prologues: dict[str, tuple[str, ...]]
    """Which parts of render/shell each started process runs first, by the script's variable that holds them."""

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        """The launcher's own options, each with its reason."""
        ...

    def words(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        """The whole line that starts `command` as the ranks of the plan."""
        ...

    def processes_here(self, plan: Plan) -> int:
        """How many of that line the supervisor starts on a machine without Slurm."""
        ...


def prologue(variable: str, command: Sequence[Word]) -> tuple[Word, ...]:
    """`command`, started by the prologue that the script keeps in `variable`."""
    return ("sh", "-c", Fragment(f'"${variable}"'), "muster", *command)
