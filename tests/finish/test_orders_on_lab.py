"""Random orders of faults on a lab: a job is done as if nothing was, or ends by rule with a sentence; seed by seed."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import checked
from plugins.labs import MUSTER, Lab
from plugins.patience import patient

pytestmark = [pytest.mark.lab, pytest.mark.long]

_SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
_COUNT = int(os.environ.get("MUSTER_TEST_LAB_ORDERS", "3"))
_RANKS = 2
_FAULTS = (
    "exit", "kill", "leave", "deaf", "host", "host of the script", "requeue", "cancel", "controller away", "hosts back",
)  # fmt: skip
# Each rank shows each step that it lives, and loses the connection where another has not for four seconds. A file
# `do.RANK` of the test tells it what to do. Rank 0 saves every fifth step.
_TRAINING = """\
import json, os, signal, sys, time, zipfile
rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
state, step = 1, 0
if os.environ["MUSTER_CHECKPOINT"]:
    with zipfile.ZipFile(os.environ["MUSTER_CHECKPOINT"]) as file:
        step, state = json.loads(file.read("state"))
try:
    before = open("lives.%d" % rank).read().split()
except OSError:
    before = []
if before and int(before[0]) != attempt and time.time() - float(before[1]) < 0.5:
    open("twice.%d.%d" % (rank, attempt), "w").close()
print("begins", attempt, rank, step, flush=True)
began = time.time()
def look(name):
    try:
        words = open(name).read().split()
        return int(words[0]) if len(words) == 2 else attempt, float(words[1]) if len(words) == 2 else time.time()
    except OSError:
        return attempt, began
while step < 40:
    time.sleep(0.4)
    step += 1
    state = (state * 6364136223846793005 + step) % 2**64
    with open("lives.%d.part" % rank, "w") as file:
        file.write("%d %.3f" % (attempt, time.time()))
    os.rename("lives.%d.part" % rank, "lives.%d" % rank)
    if rank == 0 and step % 5 == 0:
        with zipfile.ZipFile("saved/part", "w") as file:
            file.writestr("state", json.dumps([step, state]))
        os.rename("saved/part", "saved/step%d.pt" % step)
    for other in range(2):
        if other != rank and not os.path.exists("final.%d.%d" % (attempt, other)):
            number, when = look("lives.%d" % other)
            if time.time() - max(when, began + 20) > 4:
                raise ConnectionError("Connection reset by peer")
    if os.path.exists("do.%d" % rank):
        what = open("do.%d" % rank).read()
        os.unlink("do.%d" % rank)
        if what == "exit": raise RuntimeError("step %d" % step)
        if what == "kill": os.kill(os.getpid(), 9)
        if what == "leave": sys.exit(0)
        if what == "deaf":
            signal.signal(signal.SIGTERM, lambda *_: None)
            while True: time.sleep(600)
with open("final.%d.%d" % (attempt, rank), "w") as file:
    file.write(str(state))
"""


class _Order:
    """One job, and the faults that it meets."""

    def __init__(self, lab: Lab, folder: Path, seed: int) -> None:
        self.lab, self.folder, self.dice = lab, folder, random.Random(seed)  # noqa: S311
        self.cancelled_at = 0.0
        (folder / "saved").mkdir(parents=True)
        (folder / "train.py").write_text(_TRAINING)
        goes_on = self.dice.choice((["--until-done", "--links", "3"], ["--requeue"], []))
        spares = self.dice.choice(([], ["--spares", "1"]))
        self.words = [*spares, "--restart", str(self.dice.randint(1, 3)), *goes_on]
        self.faults = [self.dice.choice(_FAULTS) for _ in range(self.dice.randint(1, 3))]

    def play(self) -> list[str]:
        """Play it to its end, and return what is wrong."""
        size = (
            "-N",
            "2",
            "--ntasks-per-node",
            "1",
            "-t",
            "10",
            "--hang",
            "15s",
            "--grace",
            "3",
            "--checkpoint",
            "saved",
        )
        environment = ("env", f"XDG_STATE_HOME={self.folder / 'state'}")
        words = (*environment, MUSTER, "submit", "--quiet", *size, *self.words, "--", "python3", "-u", "train.py")
        job = checked(self.lab.exec(words, cwd=self.folder, env={"PATH": path_with()})).stdout.strip()
        (self.run,) = (self.folder / "muster-runs").iterdir()
        self._wait(lambda: bool(self._rows("attempts")), 120)
        for fault in self.faults:
            time.sleep(self.dice.uniform(2, 12))
            if not self._queue():
                break
            self._strike(fault)
        ended = self._wait(lambda: not self._queue(), 420)
        self._restore()
        return list(self._wrong(job, ended=ended))

    def _queue(self) -> list[tuple[str, str]]:
        """Return the jobs that are left, with their states; those that wait for a time may start."""
        told = self.lab.exec(["squeue", "--noheader", "--format=%A %T"]).stdout.split("\n")
        jobs = [(line.split()[0], line.split()[1]) for line in told if line]
        for job, state in jobs:
            if state == "PENDING":
                self.lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"])
        return [each for each in jobs if each[1] != "COMPLETING"]

    def _strike(self, fault: str) -> None:
        running = [job for job, state in self._queue() if state == "RUNNING"]
        hosts = [row[2] for row in self._rows("attempts")][-1:]
        names = self.lab.exec(["scontrol", "show", "hostnames", *hosts]).stdout.split()
        if fault in {"exit", "kill", "leave", "deaf"}:
            (self.folder / f"do.{self.dice.randrange(_RANKS)}").write_text(fault)
        elif fault.startswith("host of") or fault == "host":
            self.lab.muster("fault", "kill-node", names[0] if "script" in fault else names[-1])
        elif fault == "requeue" and running:
            self.lab.exec(["scontrol", "requeue", running[0]])
        elif fault == "cancel" and running:
            self.lab.exec(["scancel", running[0]])
            self.cancelled_at = time.time()
        elif fault == "controller away":
            self.lab.muster("fault", "stop-controller")
            time.sleep(self.dice.uniform(3, 20))
            self.lab.muster("fault", "restore", "controller")
        elif fault == "hosts back":
            self._restore()

    def _restore(self) -> None:
        self.lab.muster("fault", "restore", timeout_s=300)

    def _wrong(self, job: str, *, ended: bool) -> Iterator[str]:
        ends, attempts = self._rows("ends"), self._rows("attempts")
        if not ended:
            yield f"it stands: {self._queue()}"
            self.lab.exec(["scancel", *[each for each, _ in self._queue()]])
        if list(self.folder.glob("twice.*")):
            yield "the work of a rank was done twice at the same time"
        done = [row[0] for row in ends if row[6] == "done"]
        for number in done:
            finals = [self.folder / f"final.{number}.{rank}" for rank in range(_RANKS)]
            if "leave" not in self.faults and not all(final.exists() for final in finals):
                yield f"attempt {number} is called done, and ranks are not"
            if {final.read_text() for final in finals if final.exists()} - {str(_final())}:
                yield f"attempt {number} has other weights"
        if self.cancelled_at and any(float(row[1]) > self.cancelled_at + 5 for row in attempts):
            yield "an attempt begins after the cancellation"
        begun = [int(line.split()[-1]) for line in self._logged() if "begins" in line and " 0 " in line]
        if begun != sorted(begun):
            yield f"attempts begin at {begun}"
        if not done and not self.cancelled_at and not ends:
            state = self.lab.exec(["squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T"]).stdout.strip()
            if state not in {"NODE_FAIL", "FAILED", "TIMEOUT", "COMPLETING"}:
                yield f"nothing says how it ended: {state}"

    def told(self) -> str:
        """Return what is written of the job: for a person who looks for the reason."""
        rows = {name: self._rows(name) for name in ("attempts", "ends", "links", "over")}
        lines = [line for line in self._logged() if "muster:" in line or "slurmstepd:" in line]
        return "\n".join([json.dumps([rows, self.cancelled_at]), *lines])

    def _logged(self) -> list[str]:
        files = sorted((self.run / "logs").rglob("*.log"), key=lambda file: file.stat().st_mtime)
        return [line for file in files for line in file.read_text(errors="replace").splitlines()]

    def _rows(self, name: str) -> list[list[str]]:
        file = self.run / name
        return [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []

    def _wait(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        until = time.monotonic() + patient(timeout_s)
        while not holds():
            if time.monotonic() > until:
                return False
            time.sleep(1)
        return True


def _final() -> int:
    state = 1
    for step in range(1, 41):
        state = (state * 6364136223846793005 + step) % 2**64
    return state


def test_random_orders_on_a_lab(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    lab = new_lab("-N", "5")
    settings = "sed -i '/^SlurmdTimeout/d; $aSlurmdTimeout=40' /etc/slurm/slurm.conf; scontrol reconfigure"
    checked(lab.exec(["sh", "-c", settings]))
    wrong = []
    for seed in range(_SEED, _SEED + _COUNT):
        order = _Order(lab, shared_directory / str(seed), seed)
        complaints = order.play()
        story = [(row[6], row[7][:60]) for row in order._rows("ends")]
        print(json.dumps([seed, order.words, order.faults, story, complaints]), flush=True)
        wrong += [f"seed {seed}, {order.words}, {order.faults}: {complaint}" for complaint in complaints]
        if complaints:
            print(order.told(), flush=True)

    assert not wrong, "\n".join(wrong)
