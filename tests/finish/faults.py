"""Random faults at random times: the ways in which a rank or its host ends, and what has to be told of each."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

from muster.runner import run

__all__ = ["HOST_FAULTS", "RANK_FAULTS", "TRAINING", "Fault", "final_of", "random_faults"]

STEPS = 30
RANK_FAULTS = ("exit", "raise", "kill", "abort", "segfault", "memory")
# By the words of `muster lab fault`; a full /tmp ends nothing.
HOST_FAULTS = ("kill-node", "pause-node", "cut-link", "fill-tmp")
_SIGNALS = {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "segfault": signal.SIGSEGV}
# 126 and 127 are of a program that is not there, and are never started again.
_CODES = [code for code in range(1, 256) if code not in {126, 127}]

# A training without torch: `train.py KIND RANK STEP CODE`. Rank 0 saves every fifth step. In its first attempt rank
# RANK does something to itself after STEP, or leaves word that its host may be struck; the others wait for it before
# their last step, as in a collective.
TRAINING = """\
import json, os, resource, socket, sys, time, zipfile
kind, failing, at, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
state, step = 1, 0
if os.environ["MUSTER_CHECKPOINT"]:
    with zipfile.ZipFile(os.environ["MUSTER_CHECKPOINT"]) as file:
        step, state = json.loads(file.read("state"))
print("begins %d %d %d %s %.3f" % (attempt, rank, step, socket.gethostname(), time.time()), flush=True)
def fail():
    with open("failed", "w") as file:
        file.write("%s %.3f" % (socket.gethostname(), time.time()))
    if kind == "exit": sys.exit(code)
    if kind == "raise": raise RuntimeError("fault %d" % code)
    if kind == "abort": os.abort()
    if kind == "kill": os.kill(os.getpid(), 9)
    if kind == "segfault": os.kill(os.getpid(), 11)
    if kind == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
        bytearray(1 << 30)
    if kind == "limit":
        held = bytearray(os.urandom(1 << 20) * 400)
    time.sleep(5 if kind == "fill-tmp" else 300)
while step < 30:
    time.sleep(0.01)
    step += 1
    state = (state * 6364136223846793005 + step) % 2**64
    if rank == 0 and step % 5 == 0:
        with zipfile.ZipFile("saved/step%d.pt" % step, "w") as file:
            file.writestr("state", json.dumps([step, state]))
        with open("newest", "w") as file:
            file.write(str(step))
    if attempt == 1 and rank == failing and step == at:
        fail()
    if attempt == 1 and rank != failing and step == 29:
        time.sleep(5 if kind == "fill-tmp" else 300)
print("final", rank, state, flush=True)
"""


@dataclass(frozen=True)
class Fault:
    """One rank, or its host, ends in one way after one step of the training."""

    kind: str
    rank: int
    step: int
    code: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the training is told."""
        return self.kind, str(self.rank), str(self.step), str(self.code)

    @property
    def is_of_host(self) -> bool:
        """Whether the test has to strike the host."""
        return self.kind in HOST_FAULTS

    @property
    def words(self) -> str:
        """The end of the rank as the story has to tell it."""
        if self.kind in _SIGNALS:
            return f"ended by {_SIGNALS[self.kind].name}"
        if self.kind != "exit":
            return "exit status 1"
        name = _name_of_signal(self.code - 128)
        return f"ended by SIG{name}" if name else f"exit status {self.code}"


def _name_of_signal(number: int) -> str:
    """As bash has it, which takes a status above 128 for a signal's; empty: there is no such signal."""
    if number < 1:
        return ""
    return run(["bash", "-c", f"kill -l {number}"]).stdout.strip()


def final_of(steps: int = STEPS) -> int:
    """The state of a training that nothing disturbed."""
    state = 1
    for step in range(1, steps + 1):
        state = (state * 6364136223846793005 + step) % 2**64
    return state


def random_faults(count: int, *, seed: int, kinds: tuple[str, ...] = RANK_FAULTS, ranks: int = 4) -> list[Fault]:
    """Return `count` faults: each kind as often as any, and rank 0 and its host as often as any."""
    dice = random.Random(seed)  # noqa: S311  # it has to be repeated
    return [
        Fault(dice.choice(kinds), dice.randrange(ranks), dice.randrange(1, STEPS - 1), dice.choice(_CODES))
        for _ in range(count)
    ]
