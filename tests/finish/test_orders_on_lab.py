"""Random orders of faults on a lab: a job is done as if nothing was, or ends by rule with a sentence; seed by seed."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

from launch.lab_runs import path_with
from muster.runner import checked
from plugins.labs import MUSTER, Lab
from plugins.patience import patient

pytestmark = [pytest.mark.lab, pytest.mark.long]

_SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
_COUNT = int(os.environ.get("MUSTER_TEST_LAB_ORDERS", "3"))
_AT_ONCE = int(os.environ.get("MUSTER_TEST_AT_ONCE", "3"))
_SLURMD_TIMEOUT = int(os.environ.get("MUSTER_TEST_SLURMD_TIMEOUT", "40"))
_LAUNCHER = os.environ.get("MUSTER_TEST_LAUNCHER", "srun")
_WITH_TORCH = bool(os.environ.get("MUSTER_TEST_WITH_TORCH"))
_RANKS = 2
_CONTROLLER = Lock()
_FAULTS = (
    "exit", "kill", "leave", "deaf", "host", "host of the script", "requeue", "cancel", "controller away", "hosts back",
    "torn", "limit",
)  # fmt: skip
_CAUSES = {
    "exit": r"^rank {rank} on .* \(RuntimeError: step",
    "kill": "^rank {rank} on .*: ended by SIGKILL",
    "leave": "^rank {rank} on .* ended with status 0",
    "deaf": "^no rank has gone on for 15 s: rank {rank} on ",
}
# Of both trainings: a rank that lives beside that of another attempt is found: all hosts of a lab have one kernel.
# A file `do.RANK` of the test tells it what to do.
_BEGIN = """\
import fcntl, json, os, signal, sys, time, zipfile
rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
told = []
if os.environ.get("MUSTER_SAVE_SIGNAL"):
    signal.signal(getattr(signal, "SIG" + os.environ["MUSTER_SAVE_SIGNAL"]), lambda *_: told.append(1))
own = open("own.%d" % rank, "a")
try:
    fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open("twice.%d.%d" % (rank, attempt), "w").close()
def obey():
    if os.path.exists("do.%d" % rank):
        what = open("do.%d" % rank).read()
        os.unlink("do.%d" % rank)
        if what == "exit": raise RuntimeError("step %d" % step)
        if what == "kill": os.kill(os.getpid(), 9)
        if what == "leave": sys.exit(0)
        if what == "deaf":
            signal.signal(signal.SIGTERM, lambda *_: None)
            while True: time.sleep(600)
def end(way, text=""):
    with open("%s.%d.%d" % (way, attempt, rank), "w") as file:
        file.write(text)
    sys.exit(0)
"""
# Each rank shows each step that it lives, and loses the connection where another has not for four seconds. Rank 0 saves
# every fifth step; all save and leave where they are told to. None takes its last step before the last fault.
_TRAINING = """\
def save(name):
    with zipfile.ZipFile("saved/part", "w") as file:
        file.writestr("state", json.dumps([step, state]))
    os.rename("saved/part", name)
state, step = 1, 0
if os.environ["MUSTER_CHECKPOINT"]:
    with zipfile.ZipFile(os.environ["MUSTER_CHECKPOINT"]) as file:
        step, state = json.loads(file.read("state"))
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
    if step < 39 or os.path.exists("struck"):
        step += 1
        state = (state * 6364136223846793005 + step) % 2**64
    with open("lives.%d.part" % rank, "w") as file:
        file.write("%d %.3f" % (attempt, time.time()))
    os.rename("lives.%d.part" % rank, "lives.%d" % rank)
    if rank == 0 and (step % 5 == 0 or told):
        save("saved/step%d.pt" % step)
    if told:
        end("left")
    for other in range(2):
        if other != rank and not any(os.path.exists("%s.%d.%d" % (way, attempt, other)) for way in ("final", "left")):
            number, when = look("lives.%d" % other)
            if time.time() - max(when, began + 20) > 4:
                raise ConnectionError("Connection reset by peer")
    obey()
end("final", str(state))
"""
# The same with torch: gloo notices a peer that is gone, and one all_reduce tells all ranks what one of them was told.
_TRAINING_WITH_TORCH = """\
import hashlib
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
if os.environ["MUSTER_CHECKPOINT"]:
    step, weights, moments = torch.load(os.environ["MUSTER_CHECKPOINT"])
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
print("begins", attempt, rank, step, flush=True)
while step < 40:
    time.sleep(0.4)
    flags = torch.tensor([len(told), int(os.path.exists("struck"))])
    dist.all_reduce(flags)
    if step < 39 or flags[1]:
        step += 1
        torch.manual_seed(step * 2 + rank)
        optimizer.zero_grad()
        model(torch.randn(8, 32)).pow(2).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    if rank == 0 and (step % 5 == 0 or flags[0]):
        torch.save([step, model.state_dict(), optimizer.state_dict()], "saved/part")
        os.rename("saved/part", "saved/step%d.pt" % step)
    if flags[0]:
        dist.barrier()  # rank 0 has saved
        end("left")
    obey()
dist.destroy_process_group()
end("final", hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest())
"""
_SCRIPT = _BEGIN + (_TRAINING_WITH_TORCH if _WITH_TORCH else _TRAINING)


class _Order:
    """One job, and the faults that it meets."""

    def __init__(self, lab: Lab, folder: Path, seed: int, final: str) -> None:
        self.final = final
        self.lab, self.folder, self.dice = lab, folder, random.Random(seed)  # noqa: S311
        self.name = f"order-{seed}"
        self.cancelled_at = 0.0
        self.struck: set[str] = set()
        self.done: list[tuple[str, str]] = []
        self.run = folder
        (folder / "saved").mkdir(parents=True)
        (folder / "train.py").write_text(_SCRIPT)
        links = ["--until-done", "--links", "3"]
        goes_on = self.dice.choice((links, [*links, "--save-before", "30s"], ["--requeue"], []))
        spares = self.dice.choice(([], ["--spares", "1"]))
        self.words = [*spares, "--restart", str(self.dice.randint(1, 3)), *goes_on]
        self.faults = [self.dice.choice(_FAULTS) for _ in range(self.dice.randint(1, 3))]

    def play(self) -> list[str]:
        """Play it to its end, and return what is wrong."""
        size = (
            *("-N", "2", "--ntasks-per-node", "1", "--exclusive", "--job-name", self.name),
            *("--launcher", _LAUNCHER, "-t", "10", "--hang", "15s", "--grace", "3", "--checkpoint", "saved"),
        )
        environment = ("env", f"XDG_STATE_HOME={self.folder / 'state'}")
        words = (*environment, MUSTER, "submit", "--quiet", *size, *self.words, "--", "python3", "-u", "train.py")
        job = checked(self.lab.exec(words, cwd=self.folder, env={"PATH": path_with()})).stdout.strip()
        (self.run,) = (self.folder / "muster-runs").iterdir()
        self._wait(lambda: bool(self._rows("attempts")) or not self._queue(), 420)
        for fault in self.faults:
            time.sleep(self.dice.uniform(2, 12))
            if not self._queue():
                break
            self._strike(fault)
        (self.folder / "struck").touch()
        ended = self._wait(lambda: not self._queue(), 420 + 3 * _SLURMD_TIMEOUT)
        self._restore()
        return list(self._wrong(job, ended=ended))

    def _queue(self) -> list[tuple[str, str]]:
        """Return its jobs that are left, with their states; those that wait for a time may start."""
        while (answer := self.lab.exec(["squeue", "--noheader", f"--name={self.name}", "--format=%A %T"])).status:
            time.sleep(1)  # another order has stopped the controller
        told = answer.stdout.split("\n")
        jobs = [(line.split()[0], line.split()[1]) for line in told if line]
        for job, state in jobs:
            if state == "PENDING":
                self.lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"])
        return jobs

    def _strike(self, fault: str) -> None:
        running = [job for job, state in self._queue() if state == "RUNNING"]
        hosts = [row[2] for row in self._rows("attempts")][-1:]
        names = self.lab.exec(["scontrol", "show", "hostnames", *hosts]).stdout.split()
        if fault in {"exit", "kill", "leave", "deaf"}:
            rank = self.dice.randrange(_RANKS)
            (self.folder / f"do.{rank}").write_text(fault)
            self.done.append((fault, str(rank)))
        elif (fault.startswith("host of") or fault == "host") and running:
            host = names[0] if "script" in fault else names[-1]
            self.struck.add(host)
            self.lab.muster("fault", "kill-node", host)
            self.done.append((fault, host))
        elif fault == "requeue" and running:
            self.lab.exec(["scontrol", "requeue", running[0]])
        elif fault == "cancel" and running:
            self.lab.exec(["scancel", running[0]])
            self.cancelled_at = time.time()
        elif fault == "controller away":
            with _CONTROLLER:
                self.lab.muster("fault", "stop-controller")
                time.sleep(self.dice.uniform(3, 20))
                self.lab.muster("fault", "restore", "controller")
        elif fault == "hosts back":
            self._restore()
        elif fault == "limit" and running:
            self.lab.exec(["scontrol", "update", f"JobId={running[0]}", "TimeLimit=1"])
        elif fault == "torn":
            (self.folder / "saved/step39.pt").write_bytes(b"PK\3\4 the first half")
        if fault in {"requeue", "cancel", "controller away", "limit"}:
            self.done.append((fault, ""))

    def _restore(self) -> None:
        while self.struck:
            self.lab.muster("fault", "restore", self.struck.pop(), timeout_s=300)

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
            if {final.read_text() for final in finals if final.exists()} - {self.final}:
                yield f"attempt {number} has other weights"
        if self.cancelled_at and any(float(row[1]) > self.cancelled_at + 5 for row in attempts):
            yield "an attempt begins after the cancellation"
        yield from self._wrong_cause(ends)
        begun = [int(step) for line in self._logged() for step in re.findall("begins [0-9]+ 0 ([0-9]+)", line)]
        if begun != sorted(begun):
            yield f"attempts begin at {begun}"
        if not done and not self.cancelled_at and not ends:
            state = self.lab.exec(["squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T"]).stdout.strip()
            if state not in {"NODE_FAIL", "FAILED", "TIMEOUT", "COMPLETING"}:
                yield f"nothing says how it ended: {state}"

    def _wrong_cause(self, ends: list[list[str]]) -> Iterator[str]:
        """Yield what is wrong with the first cause, where the first fault was one of a rank, and was done."""
        what, where = self.done[0] if self.done else ("", "")
        is_seen_late = what in {"leave", "deaf"} and len(self.done) > 1
        if what not in _CAUSES or is_seen_late or (self.folder / f"do.{where}").exists() or not ends:
            return
        if what == "leave" and _LAUNCHER != "srun" and re.search("onnect", ends[0][7]):
            return  # only srun tells which rank left; the others name the first that failed of it, and its words
        if ends[0][6] != "done" and not re.search(_CAUSES[what].format(rank=where), ends[0][7]):
            yield f"the first fault was {what} of rank {where}, and the first cause is: {ends[0][7]}"

    def ends(self) -> list[list[str]]:
        """Return how its attempts ended."""
        return self._rows("ends")

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


def _undisturbed(lab: Lab, folder: Path) -> str:
    """Return what a training that nothing disturbs ends with."""
    (folder / "saved").mkdir(parents=True)
    (folder / "struck").touch()
    (folder / "train.py").write_text(_SCRIPT)
    size = ("-N", "2", "--ntasks-per-node", "1", "--launcher", _LAUNCHER, "--checkpoint", "saved")
    words = (MUSTER, "run", "--quiet", *size, "--", "python3", "-u", "train.py")
    checked(lab.exec(words, cwd=folder, env={"PATH": path_with()}))
    finals = {(folder / f"final.1.{rank}").read_text() for rank in range(_RANKS)}
    assert len(finals) == 1, finals
    return finals.pop()


def _play(lab: Lab, folder: Path, seed: int, final: str) -> list[str]:
    order = _Order(lab, folder / str(seed), seed, final)
    try:
        complaints = order.play()
    except Exception as error:  # noqa: BLE001  # the others go on
        complaints = [f"the test itself: {error!r}"]
        order._restore()
    story = [(row[6], row[7][:60]) for row in order.ends()]
    told = [json.dumps([seed, order.words, order.faults, order.done, story, complaints])]
    print("\n".join([*told, *([order.told()] if complaints else [])]), flush=True)
    return [f"seed {seed}, {order.words}, {order.faults}: {complaint}" for complaint in complaints]


def test_random_orders_on_a_lab(new_lab: Callable[..., Lab], shared_directory: Path) -> None:
    """Some at once; a host that is struck is one of the own job, a controller that is away is away for all."""
    lab = new_lab("-N", str(4 * _AT_ONCE + 1))
    settings = f"sed -i '/^SlurmdTimeout/d; $aSlurmdTimeout={_SLURMD_TIMEOUT}' /etc/slurm/slurm.conf"
    checked(lab.exec(["sh", "-c", settings + "; scontrol reconfigure"]))
    final = _undisturbed(lab, shared_directory / "undisturbed")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        played = pool.map(lambda seed: _play(lab, shared_directory, seed, final), range(_SEED, _SEED + _COUNT))
        wrong = [complaint for complaints in played for complaint in complaints]

    assert not wrong, "\n".join(wrong)
