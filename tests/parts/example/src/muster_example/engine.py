"""crate: a program around the command that takes the image as its first word."""

from __future__ import annotations

from collections.abc import Sequence

from muster.images.base import ImageEngine, activated
from muster.model.plan import Plan
from muster.model.words import Word


class Crate(ImageEngine):
    """`crate IMAGE COMMAND`."""

    name = "crate"
    program = "crate"
    runs = frozenset({"sandbox"})

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        return (plan.image.program, plan.image.image or "", *activated(plan, command))
