"""Random faults at random times: the ways in which a rank ends, and what has to be told of each."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["Fault", "random_faults"]

# What the rank does to itself, and how a shell would put it.
_ENDS = {
    "exit": "sys.exit({code})",
    "kill": "os.kill(os.getpid(), 9)",
    "abort": "os.abort()",
    "segfault": "os.kill(os.getpid(), 11)",
    "raise": 'raise RuntimeError("fault {code}")',
}
_STATUS = {"kill": 137, "abort": 134, "segfault": 139, "raise": 1}


@dataclass(frozen=True)
class Fault:
    """One rank ends in one way after one step of its training."""

    kind: str
    rank: int
    step: int
    code: int

    @property
    def statement(self) -> str:
        """What the rank runs."""
        return _ENDS[self.kind].format(code=self.code)

    @property
    def status(self) -> int:
        """The status that has to be told."""
        return _STATUS.get(self.kind, self.code)

    @property
    def words(self) -> str:
        """The first cause as the story has to tell it."""
        if self.status <= 128 or self.kind == "exit":
            return f"exit status {self.status}"
        return {137: "ended by SIGKILL", 134: "ended by SIGABRT", 139: "ended by SIGSEGV"}[self.status]


def random_faults(count: int, *, ranks: int, steps: int, seed: int) -> list[Fault]:
    """Return `count` faults, rank 0 as often as any; statuses that end a job for good (2, 126, 127) are left out."""
    dice = random.Random(seed)  # noqa: S311  # it has to be repeated
    codes = [code for code in range(1, 126) if code != 2]
    return [
        Fault(dice.choice(list(_ENDS)), dice.randrange(ranks), dice.randrange(1, steps), dice.choice(codes))
        for _ in range(count)
    ]
