"""Many jobs that go on in their next link, at once: what ends each, and how its end is judged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from finish.saving import TRAINING, saved_steps
from launch.lab_runs import path_with
from muster.runner import checked
from plugins.labs import MUSTER, Lab

__all__ = ["HOSTS", "KINDS", "SETTINGS", "go_on_side_by_side"]

# Two hosts for most jobs, two whose jobs give way, and twice two of which one dies with one in reserve.
HOSTS = ("-N", "10", "--cpus-per-node", "64")
SETTINGS = """\
grep -v -E '^(PartitionName|Preempt|SlurmctldParameters|KillWait|SlurmdTimeout)' /etc/slurm/slurm.conf >/etc/slurm/new
cat >>/etc/slurm/new <<END
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=60
SlurmdTimeout=20
SlurmctldParameters=preempt_send_user_signal
PartitionName=main Nodes=node[1-2] Default=YES State=UP
PartitionName=low Nodes=node[3-4] State=UP PriorityTier=1 GraceTime=60
PartitionName=high Nodes=node[3-4] State=UP PriorityTier=10
PartitionName=frail Nodes=node[5-7] State=UP
PartitionName=brittle Nodes=node[8-10] State=UP
END
mv /etc/slurm/new /etc/slurm/slurm.conf
scontrol reconfigure
"""
KINDS = {
    # Slurm signals up to a minute early, and the second link has to be done by then on a busy machine.
    "limit": ("-t", "4", "--save-before", "50s"),
    "array": ("-t", "4", "--save-before", "50s"),
    "preemption": ("-p", "low", "-t", "20", "--save-before", "50s"),
    "requeue": ("-t", "20", "--save-before", "50s", "--save-signal", "TERM", "--grace", "50"),
    "node failure": ("-p", "frail", "-t", "20", "--save-before", "50s"),
    "failure of the script's host": ("-p", "brittle", "-t", "20", "--save-before", "50s"),
}
# Which host dies: the first is that of the scripts.
_DYING = {"node failure": "node6", "failure of the script's host": "node8"}
_RANKS = 2
# So long is a step, and so many steps of a later attempt are enough.
_STEPS = "0.25 8"
_WAIT_S = 900


@dataclass(frozen=True)
class Chain:
    """One job that goes on, its first id, where it keeps its run, and where its ranks write."""

    job: str
    run: Path
    folder: Path

    def attempts(self) -> list[list[str]]:
        """One row for each attempt."""
        return [line.split("\t") for line in _read(self.run / "attempts").splitlines()]


def go_on_side_by_side(
    lab: Lab, folder: Path, kinds: tuple[str, ...], launcher: str, count: int, *words: str, path: str = ""
) -> list[str]:
    """Start `count` jobs of each kind that go on, end them, and return what is wrong with their ends."""
    starting = threading.Lock()

    def go_on(kind: str) -> list[str]:
        place = folder / kind.replace(" ", "-").replace("'", "")
        return _go_on(_Submit(lab, kind, launcher, words, path or path_with()), place, count, starting)

    with ThreadPoolExecutor(len(kinds)) as pool:
        return [complaint for complaints in pool.map(go_on, kinds) for complaint in complaints]


def _go_on(submit: _Submit, folder: Path, count: int, starting: threading.Lock) -> list[str]:
    """The same of one kind; one kind after the other starts its jobs."""
    lab, kind = submit.lab, submit.kind
    with starting:
        folder.mkdir()
        chains = list(submit.all(folder, count))
        _wait(lambda: all(len(_began(chain, 1)) == _RANKS for chain in chains), chains)
    time.sleep(3 if kind in _DYING else 1)
    _end_all(lab, kind, chains)
    _wait(lambda: all((chain.run / "over").exists() for chain in chains), chains)
    ids = {job for chain in chains for job in _links(chain)}
    _wait(lambda: not ids & set(_queue(lab)), chains)
    complaints = {chain.job: list(_complaints(kind, chain)) for chain in chains}
    right = sum(not wrong for wrong in complaints.values())
    told = [
        f"{submit.launcher}, {kind}, {job}: {complaint}" for job, wrong in complaints.items() for complaint in wrong
    ]
    print(f"{submit.launcher}, {kind}: {right} of {len(chains)} right", *told, sep="\n", flush=True)
    return told


@dataclass(frozen=True)
class _Submit:
    """How the jobs are submitted."""

    lab: Lab
    kind: str
    launcher: str
    words: tuple[str, ...]
    path: str

    def all(self, folder: Path, count: int) -> Iterator[Chain]:
        """Submit one array, or one job after the other, each in a folder of its own."""
        if self.kind == "array":
            places = [_place(folder / f"task.{task}") for task in range(1, count + 1)]
            # A checkpoint folder would be that of all tasks: each finds its own.
            training = f'cd "task.$SLURM_ARRAY_TASK_ID" && exec python3 train.py {_STEPS}'
            job, run = self.one(folder, f"--sbatch=--array=1-{count}", training=training)
            for task, place in enumerate(places, start=1):
                yield Chain(f"{job}_{task}", run / f"task-{task}", place)
            return
        for number in range(count):
            place = _place(folder / str(number))
            yield Chain(*self.one(place, "--checkpoint", "saved", training=f"exec python3 train.py {_STEPS}"), place)

    def one(self, folder: Path, *words: str, training: str) -> tuple[str, Path]:
        """Submit one job: its id, and its run directory."""
        size = ("-N", "2", "--ntasks-per-node", "1", "-c", "1", "--launcher", self.launcher)
        asked = ("submit", "--quiet", "--until-done", *size, *KINDS[self.kind], *self.words, *words)
        command = ("env", f"XDG_STATE_HOME={folder / 'state'}", MUSTER, *asked, "--", "sh", "-c", training)
        job = checked(self.lab.exec(command, cwd=folder, env={"PATH": self.path})).stdout.strip()
        (run,) = (folder / "muster-runs").iterdir()
        return job, run


def _place(folder: Path) -> Path:
    (folder / "saved").mkdir(parents=True)
    (folder / "train.py").write_text(TRAINING)
    return folder


def _end_all(lab: Lab, kind: str, chains: list[Chain]) -> None:
    """Make Slurm end the jobs; the time limit comes by itself."""
    if kind == "preemption":
        checked(lab.exec(["srun", "--quiet", "--exclusive", "-p", "high", "-N2", "-t", "1", "true"], timeout_s=300))
    if kind == "requeue":
        jobs = [chain.job for chain in chains]
        checked(lab.exec(["scontrol", "requeue", ",".join(jobs)]))
        _wait(lambda: all(_queue(lab).get(job) == "PENDING" for job in jobs), chains)
        for job in jobs:
            checked(lab.exec(["scontrol", "update", f"JobId={job}", "StartTime=now"]))
    if kind in _DYING:
        host = _DYING[kind]
        checked(lab.muster("fault", "kill-node", host))
        _wait(lambda: all(_queue(lab).get(chain.job) != "RUNNING" for chain in chains), chains)
        checked(lab.muster("fault", "restore", host, timeout_s=300))
        for chain in chains:
            checked(lab.exec(["scontrol", "update", f"JobId={chain.job}", "StartTime=now"]))


def _complaints(kind: str, chain: Chain) -> Iterator[str]:
    """Yield what is wrong with one job that has gone on."""
    if _read(chain.run / "over") != "the script is done\n":
        yield f"it is over: {_read(chain.run / 'over')!r}"
    attempts = chain.attempts()
    if len(attempts) != 2:
        yield f"{len(attempts)} attempts: {attempts}"
        return
    jobs = [attempt[4] for attempt in attempts]
    same_job = kind == "requeue" or kind in _DYING
    if (jobs[0] == jobs[1]) != same_job or jobs[1] not in _links(chain):
        yield f"its attempts are those of {jobs}, its links are {_links(chain)}"
    begun = [_begun_at(chain, number) for number in (1, 2)]
    if begun[0] != {0} or len(begun[1]) != 1:
        yield f"logs are lost, or ranks began apart: {begun}"
        return
    (second,) = begun[1]
    if kind in _DYING:
        if second % 10 or not (chain.folder / f"saved/step{second}.pt").exists():
            yield f"it went on at {second}"
        return
    steps = saved_steps(chain.folder, "*")
    if len(steps) != _RANKS or {tuple(each) for each in steps.values()} != {(second,)}:
        yield f"it went on at {second}, and its ranks saved at {steps}"


def _begun_at(chain: Chain, attempt: int) -> set[int]:
    """Return at which steps the ranks of an attempt began, as its own logs have it."""
    folder = chain.run / "logs" if attempt == 1 else chain.run / f"logs/attempt-{attempt}"
    lines = [line for file in folder.glob("*.log") for line in _read(file).splitlines()]
    steps = [int(line.rpartition(" ")[2]) for line in lines if "begins at " in line]
    return set(steps) if len(steps) == _RANKS else {*steps, -1}


def _began(chain: Chain, attempt: int) -> list[Path]:
    return list(chain.folder.glob(f"began.*.{attempt}.*"))


def _links(chain: Chain) -> list[str]:
    return [line.split("\t")[1] for line in _read(chain.run / "links").splitlines()]


def _queue(lab: Lab) -> dict[str, str]:
    lines = checked(lab.exec(["squeue", "--noheader", "--format=%i %T"])).stdout.splitlines()
    return dict(line.split() for line in lines)


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _wait(holds: Callable[[], bool], chains: list[Chain]) -> None:
    until = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < until, [(chain.job, chain.attempts(), _read(chain.run / "over")) for chain in chains]
        time.sleep(0.5)
