"""What following jobs costs: requests and time of `muster jobs` in a long queue, memory of `muster logs -f`.

It makes a lab of its own. Requests are those that the controller counted (sdiag); time is what `muster jobs` takes
beyond the one squeue that it runs, both measured in turns. Nothing here is a test: a busy machine is slower, not wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from muster.cli.output import print_table, say
from muster.runner import PIPE, checked, end_group, run, start
from muster.slurm.jobs import QUERY_ENVIRONMENT, ask_controller
from muster.slurm.variables import scheduler_environment

MUSTER = str(Path(sys.executable).with_name("muster"))
RANKS, LINES = 64, 10_000
# What the controller counts although no client asked: its nodes' and its own messages, and the counting.
_NOT_OURS = re.compile(r"MESSAGE_|REQUEST_(STATS_INFO|PING|COMPLETE|STEP_COMPLETE|NODE_REGISTRATION)|RESPONSE_")


def main() -> int:
    """Exit status: 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs in the queue (1000)")
    parser.add_argument("--rounds", type=int, default=31, help="pairs of muster jobs and squeue (31)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.jobs, options.rounds)
    # Under the checkout, because every host of a lab has a /tmp of its own.
    scratch = Path(__file__).resolve().parents[1] / ".cache"
    scratch.mkdir(exist_ok=True)
    home = tempfile.mkdtemp(prefix="bench-life-", dir=scratch)
    environment = {**os.environ, "XDG_STATE_HOME": home}
    name = ("--name", "bench-life")
    try:
        checked(run([MUSTER, "lab", "up", *name, "-N", "4", "--cpus-per-node", "16"], env=environment, timeout_s=120))
        argv = [MUSTER, "lab", "exec", *name, "--", sys.executable, __file__, *sys.argv[1:], "--inside"]
        done = start(argv, env=environment, cwd=home)
        return done.wait()
    finally:
        run([MUSTER, "lab", "down", *name], env=environment, timeout_s=60)
        shutil.rmtree(home, ignore_errors=True)


def inside(jobs: int, rounds: int) -> int:
    """The figures, measured on a login host of a lab."""
    rows = [*followed(), *listed(jobs, rounds)]
    print_table("the life of a job", ["what", "figure", "limit", ""], rows)
    return int(any(row[-1] for row in rows))


def listed(jobs: int, rounds: int) -> list[list[str]]:
    """`muster jobs` beside the bare request."""
    say(f"queueing {jobs} jobs")
    loop = f"for i in $(seq {jobs}); do sbatch --quiet --hold --output=/dev/null --wrap=true; done"
    checked(run(["sh", "-c", loop], timeout_s=600))
    ours, bare = [MUSTER, "jobs"], list(ask_controller().argv)
    environment = {**scheduler_environment(os.environ), **QUERY_ENVIRONMENT}
    before = requests()
    shown = checked(run(ours, timeout_s=60)).stdout.splitlines()
    asked = sum((requests() - before).values())
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        for name, argv in (("ours", ours), ("bare", bare)):
            begun = time.monotonic()
            checked(run(argv, env=environment if argv is bare else None, timeout_s=60))
            spent[name].append(time.monotonic() - begun)
    beyond_ms = (median(spent["ours"]) - median(spent["bare"])) * 1000
    return [
        row(f"muster jobs with {len(shown) - 1} jobs: requests to the controller", asked, 2),
        row("  ms beyond the request itself", beyond_ms, 300),
    ]


def requests() -> Counter[str]:
    """How often each kind of request reached the controller."""
    said = checked(run(["sdiag"], timeout_s=30)).stdout
    by_kind = said.partition("statistics by message type")[2].partition("statistics by user")[0]
    found = re.findall(r"^\s*([A-Z_]+)\s+\(.*?\) count:([0-9]+)", by_kind, re.MULTILINE)
    return Counter({kind: int(count) for kind, count in found if not _NOT_OURS.match(kind)})


def followed() -> list[list[str]]:
    """A real job of many ranks that talk, followed to its end."""
    say(f"following {RANKS} ranks × {LINES} lines")
    talk = f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); done"
    submit = [MUSTER, "submit", "--quiet", "-N", "4", "--ntasks-per-node", str(RANKS // 4), "--", "sh", "-c", talk]
    job = checked(run(submit, timeout_s=60)).stdout.strip()
    process = start([MUSTER, "logs", "-f", job], stdout=PIPE, own_group=True)
    next_line: Counter[int] = Counter()
    wrong = peak_kib = 0
    try:
        for count, line in enumerate(process.stdout or ()):
            rank, _, number = line.partition(b": ")
            wrong += int(number) != next_line[int(rank)]
            next_line[int(rank)] += 1
            if count % 10_000 == 0:
                peak_kib = max(peak_kib, peak_memory_kib(process.pid))
    finally:
        end_group(process)
    missing = RANKS * LINES - sum(next_line.values())
    return [
        row(f"muster logs -f of {RANKS} ranks × {LINES} lines: lines lost", missing, 0),
        row("  lines out of order within their rank", wrong, 0),
        row("  MB of memory at most", peak_kib / 1000, 50),
    ]


def peak_memory_kib(pid: int) -> int:
    """The most memory that a running process has had."""
    found = re.search(r"^VmHWM:\s+([0-9]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def row(what: str, figure: float, limit: float) -> list[str]:
    """One line of the table."""
    return [what, f"{figure:.0f}", f"≤ {limit:g}", "over" if figure > limit else ""]


if __name__ == "__main__":
    sys.exit(main())
