"""No image: the command runs on the node's own files."""

from __future__ import annotations

from collections.abc import Sequence

from muster.images.base import ImageEngine
from muster.model.plan import Plan
from muster.model.words import Word


class NoImage(ImageEngine):
    """The engine that changes nothing."""

    name = "none"

    def wrap(self, plan: Plan, command: Sequence[Word]) -> tuple[Word, ...]:
        del plan
        return tuple(command)
