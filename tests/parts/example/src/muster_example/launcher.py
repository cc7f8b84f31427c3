"""relay: srun by way of a program that passes its words on."""

from __future__ import annotations

from muster.launchers.base import Wrap
from muster.launchers.srun import Srun
from muster.model.plan import Plan
from muster.model.words import Word


class Relay(Srun):
    """srun, started by `env`."""

    name = "relay"

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return ("env", *super().words(plan, wrap))
