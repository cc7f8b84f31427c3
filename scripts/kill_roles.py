"""Kill a role of a job, by each rule, under each launcher, and judge what the job did and what `muster why` says.

    scripts/kill_roles.py --seed 74

Each job has a main role on two hosts and a helper on one, in a lab of its own. Drawn by the seed: the launcher, which
role is killed, whether a rank of it (SIGKILL) or its host, and the rule. The judge is `Cell.wanted`; it was written
before the first job ran. A host whose role may start again has no other host to start on: there Slurm ends the job.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

from muster.cli.output import print_table
from muster.runner import checked, run

MUSTER = str(Path(sys.executable).with_name("muster"))
PATIENCE_S = 240.0
RANK = """
import os, sys, time

_, folder, role, _ = sys.argv
with open(f"{folder}/{role}.{os.environ['RANK']}.starts", "a") as file:
    print(os.getpid(), os.environ["SLURMD_NODENAME"], file=file)
while role != "main" or not os.path.exists(f"{folder}/finish"):
    time.sleep(0.1)
"""
RULES = {"ends": (), "restarts": ("--restart", "1"), "noted": ("--on-failure", "note")}


class Cell(NamedTuple):
    """What is killed, and by which rule."""

    launcher: str
    role: str
    kind: str
    rule: str

    @property
    def wanted(self) -> str:
        """Return how the job is to end: well, or not."""
        return "well" if self.rule == "noted" or (self.rule, self.kind) == ("restarts", "process") else "failed"


CELLS = [
    Cell(launcher, role, kind, rule)
    for launcher, role, kind, rule in product(
        ("srun", "torchrun", "mpirun"), ("helper", "main"), ("process", "host"), RULES
    )
    # The end of the main role is that of the job.
    if (role, rule) != ("main", "noted")
]


class Verdict(NamedTuple):
    """What came of a job."""

    obeyed: bool
    named: bool
    left: int
    state: str
    words: str


class Bench:
    """One lab and what is done in it."""

    def __init__(self, seed: int) -> None:
        scratch = Path(__file__).resolve().parents[1] / ".cache"
        scratch.mkdir(exist_ok=True)
        self.home = Path(tempfile.mkdtemp(prefix="kill-roles-", dir=scratch))
        self.lab = ("--name", f"kill-roles-{os.getpid()}")
        self.random = random.Random(seed)  # noqa: S311  # a draw that can be repeated

    def type(self, *words: str, cwd: Path | None = None) -> str:
        """Return what a command in the lab prints."""
        return run([MUSTER, "lab", "exec", *self.lab, "--", *words], cwd=cwd or self.home, timeout_s=120).stdout

    def judge(self, number: int, cell: Cell) -> Verdict:
        """Run one job, kill the role in it, and judge the end."""
        folder = self.home / str(number)
        folder.mkdir()
        (folder / "rank.py").write_text(RANK)
        mark = f"kill-{os.getpid()}-{number}"
        job = self.type(*self._submission(folder, cell, mark), cwd=folder).strip()
        self._wait(lambda: len(list(folder.glob("*.starts"))) == 5 and self._is_steady(folder))
        rank, host = self._kill(folder, cell, mark)
        again = folder / f"{cell.role}.{rank}.starts"
        if cell.wanted == "well" and cell.rule == "restarts":
            self._wait(lambda: len(again.read_text().split("\n")) > 2 or not self._runs(job))
        elif cell.wanted == "well":
            self._wait(lambda: "noted" in self._events(folder) or not self._runs(job))
        if cell.wanted == "well":
            (folder / "finish").touch()
        self._wait(lambda: not self._runs(job))
        if cell.kind == "host":
            checked(run([MUSTER, "lab", "fault", *self.lab, "restore", "all"], timeout_s=120))
        state = "".join(re.findall(r"JobState=(\S+)", self.type("scontrol", "-o", "show", "job", job)))
        words = self.type(MUSTER, "why", job)
        time.sleep(2)
        first = words.partition("first: ")[2].partition("\n")[0] or words
        named = f"role {cell.role}" in first and host in first
        if cell.kind == "process":
            named = named and f"rank {rank}" in first
        obeyed = (state == "COMPLETED") == (cell.wanted == "well")
        return Verdict(obeyed, named, len(_processes(mark)), state, words)

    def _submission(self, folder: Path, cell: Cell, mark: str) -> list[str]:
        ranks = {"main": ("-N", "2", "--ntasks-per-node", "2", "--main"), "helper": ("-N", "1")}
        roles = ["main", "helper"]  # the script runs on the first host of main, which is never killed
        words = [MUSTER, "submit", "--quiet", "-g", "0", "-t", "8", "--launcher", cell.launcher, "--grace", "3"]
        for role in roles:
            rule = RULES[cell.rule] if role == cell.role else ()
            command = ("--", sys.executable, "rank.py", str(folder), role, mark)
            words += ["--role", role, *ranks[role], *rule, *command]
        return words

    def _is_steady(self, folder: Path) -> bool:
        """Return whether the job has taken note of the begin of both roles, which it asks for now and then."""
        return self._events(folder).count('"ready"') == 2

    def _events(self, folder: Path) -> str:
        return "".join(path.read_text() for path in folder.glob("muster-runs/*/roles/events"))

    def _kill(self, folder: Path, cell: Cell, mark: str) -> tuple[int, str]:
        """Kill a rank of the role, or a host of it, at a random moment; return which rank, and the host."""
        ranks = [2, 3] if cell.kind == "host" else [0, 1, 2, 3]
        rank = self.random.choice(ranks) if cell.role == "main" else 0
        host = (folder / f"{cell.role}.{rank}.starts").read_text().split()[1]
        time.sleep(self.random.uniform(0, 3))
        if cell.kind == "host":
            host = host if host != "node1" else "node2"  # torchrun may deal the ranks in another order
            checked(run([MUSTER, "lab", "fault", *self.lab, "kill-node", host], timeout_s=60))
        else:
            (pid,) = [pid for pid, role, number in _processes(mark) if (role, number) == (cell.role, rank)]
            os.kill(pid, signal.SIGKILL)
        return rank, host

    def _runs(self, job: str) -> bool:
        return any(state in self.type("squeue", "-h", "-j", job, "-o", "%T") for state in ("PEND", "RUN", "COMPL"))

    def _wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so, at most for the patience of this script."""
        until = time.monotonic() + PATIENCE_S
        while not is_so() and time.monotonic() < until:
            time.sleep(0.3)


def _processes(mark: str) -> list[tuple[int, str, int]]:
    """Return the ranks that run: the number of the process, the role and the rank."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if len(words) == 6 and words[1].endswith("rank.py") and words[4] == mark:
            rank = next((text[5:] for text in variables if text.startswith("RANK=")), "-1")
            found.append((int(folder.name), words[3], int(rank)))
    return found


def main() -> int:
    """Exit status: 1 if a job was not as its rule says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=74)
    parser.add_argument("--jobs", type=int, default=len(CELLS), help="jobs, each cell once (30)")
    parser.add_argument("--launcher", help="only this one")
    options = parser.parse_args()
    bench = Bench(options.seed)
    cells = [cell for cell in CELLS if options.launcher in (None, cell.launcher)]
    bench.random.shuffle(cells)
    rows: list[list[str]] = []
    is_well = True
    try:
        checked(run([MUSTER, "lab", "up", *bench.lab, "-N", "3"], timeout_s=120))
        for number, cell in enumerate(cells[: options.jobs]):
            verdict = bench.judge(number, cell)
            good = verdict.obeyed and verdict.named and not verdict.left
            is_well = is_well and good
            rows.append([*cell, verdict.state, *map(str, (verdict.obeyed, verdict.named, verdict.left))])
            print(*rows[-1], "" if good else "\n" + verdict.words, flush=True)
    finally:
        run([MUSTER, "lab", "down", *bench.lab], timeout_s=120)
        shutil.rmtree(bench.home, ignore_errors=True)
    print_table("roles", ["launcher", "role", "killed", "rule", "state", "obeyed", "named", "left"], rows)
    return int(not is_well)


if __name__ == "__main__":
    sys.exit(main())
