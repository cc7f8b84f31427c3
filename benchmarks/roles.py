"""What the roles of a job cost: a server on one host, trainers on three that ask it, beside the same by hand.

One allocation of a lab of four hosts. In it, in turns and in an order that changes: a batch script as a person writes
it (two srun and a loop that waits for the port), and the script that `muster submit --role` queues. What is compared is
each turn's difference. Nothing here is a test: a busy machine is slower, not wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

from muster.cli.output import print_table
from muster.runner import checked, run

PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
BAR_S = 0.3
SERVER = """
import http.server, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"well")
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Answers).serve_forever()
"""
TRAINER = """
import sys, urllib.request
for step in range(20):
    assert urllib.request.urlopen(sys.argv[1]).read() == b"well"
"""
BY_HAND = """#!/bin/bash
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
rest=$(IFS=, && echo "${{nodes[*]:1}}")
port=$((20000 + RANDOM % 10000))
srun -N1 -n1 -w "${{nodes[0]}}" --mpi=none {python} server.py "$port" & server=$!
until (: <>"/dev/tcp/${{nodes[0]}}/$port") 2>/dev/null; do sleep 0.05; done
srun -N3 -n3 -w "$rest" --mpi=none {python} trainer.py "http://${{nodes[0]}}:$port/" || status=$?
kill "$server"
wait "$server"
exit "${{status:-0}}"
"""
ROLES = (
    *("-g", "0", "-t", "10", "--role", "serve", "-N", "1", "--ready", "port"),
    *("--", PYTHON, "server.py", "{port}"),
    *("--role", "train", "-N", "3", "--after", "serve", "--", PYTHON, "trainer.py", "{serve.url}/"),
)


def main() -> int:
    """Exit status: 1 if the bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="turns (20)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    if options.inside:
        return inside(options.pairs)
    # Under the checkout, because every host of a lab has a /tmp of its own.
    scratch = Path(__file__).resolve().parents[1] / ".cache"
    scratch.mkdir(exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-roles-", dir=scratch)
    name = ("--name", f"bench-roles-{os.getpid()}")
    within = [PYTHON, __file__, "--pairs", str(options.pairs), "--inside"]
    allocation = ["sbatch", "--quiet", "--wait", "-N4", "-t60", "-oout.txt", "--wrap", " ".join(within)]
    try:
        checked(run([MUSTER, "lab", "up", *name, "-N", "4"], timeout_s=120))
        done = run([MUSTER, "lab", "exec", *name, "--", *allocation], cwd=folder, timeout_s=3600)
        sys.stdout.write(Path(folder, "out.txt").read_text())
        return done.status
    finally:
        run([MUSTER, "lab", "down", *name], timeout_s=60)
        shutil.rmtree(folder, ignore_errors=True)


def inside(pairs: int) -> int:
    """The figures, measured in the script of a job of four hosts."""
    Path("server.py").write_text(SERVER)
    Path("trainer.py").write_text(TRAINER)
    Path("by-hand.sh").write_text(BY_HAND.format(python=PYTHON))
    plan = [MUSTER, "plan", "--quiet", "--as", "script", *ROLES]
    Path("roles.sh").write_text(checked(run(plan)).stdout)
    hand, ours = measured(pairs, timed(["bash", "by-hand.sh"]), timed(["bash", "roles.sh"]))
    more = [mine - theirs for mine, theirs in zip(ours, hand)]
    is_held = median(more) <= BAR_S
    rows = [
        ["by hand", *in_quarters(hand), "", ""],
        ["the script of muster submit --role", *in_quarters(ours), "", ""],
        ["  more than by hand", *in_quarters(more), f"≤ {BAR_S}", "" if is_held else "missed"],
    ]
    print_table(f"roles, {pairs} turns, seconds", ["what", "median", "quarters", "bar", ""], rows)
    return int(not is_held)


def measured(pairs: int, *kinds: Callable[[], float]) -> list[list[float]]:
    """The seconds of each kind, in every turn once; the first turn fills the caches and is not counted."""
    seconds: list[list[float]] = [[] for _ in kinds]
    for turn in range(-1, pairs):
        for number in random.sample(range(len(kinds)), len(kinds)):
            spent = kinds[number]()
            if turn >= 0:
                seconds[number].append(spent)
    return seconds


def timed(argv: Sequence[str]) -> Callable[[], float]:
    """Seconds from the start of a command to its end."""

    def measure() -> float:
        begun = time.perf_counter()
        checked(run(argv, timeout_s=300))
        return time.perf_counter() - begun

    return measure


def in_quarters(seconds: Sequence[float]) -> list[str]:
    """The median, and the quarters beside it."""
    low, _, high = quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
    return [f"{median(seconds):.2f}", f"{low:.2f} to {high:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
