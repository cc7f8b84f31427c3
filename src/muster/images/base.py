"""What an image engine is: it wraps the command of a task, or it adds flags to the step, or both. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.plan.model import Flag, Plan
from muster.plan.words import Word

__all__ = ["ImageEngine"]


class ImageEngine(Protocol):
    """One way to give a task its files."""

    name: str

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        """Flags of the step, for engines that live in the launcher (Pyxis, the CSCS Container Engine)."""
        ...

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        """The command as it runs inside the image, for engines that are programs (Apptainer)."""
        ...
