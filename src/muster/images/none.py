"""No image: the command runs on the node's own files."""

from __future__ import annotations

from collections.abc import Sequence

from muster.model.plan import Flag, Plan
from muster.model.words import Word

__all__ = ["NoImage"]


class NoImage:
    """The engine that changes nothing."""

    name = "none"

    def parts(self, plan: Plan) -> tuple[str, ...]:
        del plan
        return ()

    def step_flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return ()

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        del plan
        return tuple(command)

    def prologue(self, plan: Plan) -> tuple[tuple[str, ...], ...]:
        del plan
        return ()

    def definition(self, plan: Plan) -> tuple[Word, ...] | None:
        del plan
        return None
