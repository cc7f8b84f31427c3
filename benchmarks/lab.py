"""What a private cluster costs: from `up` to a finished step, by size; memory; leftovers. Printed as a table.

Every figure is the median of several rounds with the slowest beside it, on whatever machine this runs; the limits
are those of a laptop with two cores. Nothing here is a test: a busy machine is slower, not wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from muster.cli.output import print_table, say
from muster.runner import checked, run, start
from muster_lab.memory import memory_mib

MUSTER = str(Path(sys.executable).with_name("muster"))
HOME = tempfile.mkdtemp(prefix="bench-lab-")
ENVIRONMENT = {**os.environ, "XDG_STATE_HOME": HOME}


def main() -> int:
    """Exit status: 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each figure (3)")
    parser.add_argument("--turns", type=int, default=20, help="up and down in a row (20)")
    options = parser.parse_args()
    before = traces()
    rows = [
        *timed("up -N4 to a finished srun -N4 hostname", options.rounds, ["-N", "4"], limit_s=6),
        *timed("the same with --accounting", options.rounds, ["-N", "4", "--accounting"], limit_s=15),
        *timed("up -N64 to a finished srun -N64 hostname", 1, ["-N", "64"], limit_s=60, memory_limit_mib=2048),
        *timed("up -N512 to a finished srun -N512 hostname", 1, ["-N", "512"], limit_s=90, memory_limit_mib=4096),
        turns(options.turns),
        side_by_side(3),
    ]
    left = traces() - before
    rows.append(["mounts, interfaces and entries left", str(len(left)), "", "0", "over" if left else ""])
    shutil.rmtree(HOME)
    print_table("muster lab", ["what", "median", "slowest", "limit", ""], rows)
    return int(any(row[-1] for row in rows))


def timed(
    what: str, rounds: int, words: list[str], *, limit_s: float, memory_limit_mib: int | None = None
) -> Iterator[list[str]]:
    """Time to a finished step, time to go down, and the memory of all that ran meanwhile."""
    say(what)
    ups, downs, memories = [], [], []
    hosts = words[1]
    for _ in range(rounds):
        begun = time.monotonic()
        lab("up", *words)
        lab("exec", "--", "srun", f"-N{hosts}", "hostname")
        ups.append(time.monotonic() - begun)
        memories.append(memory_mib(json.loads(lab("status", "--json"))["pid"]))
        begun = time.monotonic()
        lab("down")
        downs.append(time.monotonic() - begun)
    yield row(what, ups, limit_s, "s")
    yield row("  its memory", memories, memory_limit_mib, "MiB")
    yield row("  its down", downs, 3, "s")


def turns(count: int) -> list[str]:
    """Up and down in a row: seconds of one turn."""
    what = f"{count} × up -N2 and down in a row"
    say(what)
    spent = []
    for _ in range(count):
        begun = time.monotonic()
        lab("up", "-N", "2")
        lab("down")
        spent.append(time.monotonic() - begun)
    return row(what, spent, None, "s")


def side_by_side(count: int) -> list[str]:
    """Labs that come up at the same moment, each with a step of its own."""
    what = f"{count} labs at once, a step in each"
    say(what)
    begun = time.monotonic()
    names = [f"bench-{number}" for number in range(count)]
    with Path(os.devnull).open("wb") as quiet:
        ups = [start([MUSTER, "lab", "up", "--name", name, "-N", "2"], env=ENVIRONMENT, stderr=quiet) for name in names]
    failed = sum(process.wait() != 0 for process in ups)
    for name in names:
        lab("exec", "--", "srun", "-N2", "hostname", name=name)
    spent = time.monotonic() - begun
    for name in names:
        lab("down", name=name)
    return [what, f"{spent:.1f} s", "", "all up", "over" if failed else ""]


def lab(verb: str, *words: str, name: str = "bench") -> str:
    """`muster lab VERB`, which has to succeed; what it printed."""
    return checked(run([MUSTER, "lab", verb, "--name", name, *words], env=ENVIRONMENT, timeout_s=300)).stdout


def row(what: str, values: list[float], limit: float | None, unit: str) -> list[str]:
    """One line of the table."""
    over = limit is not None and median(values) > limit
    form = "{:.1f} {}" if unit == "s" else "{:.0f} {}"
    return [
        what,
        form.format(median(values), unit),
        form.format(max(values), unit),
        "" if limit is None else f"≤ {limit:g} {unit}",
        "over" if over else "",
    ]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it has ended meanwhile
        return []


def traces() -> set[str]:
    """What a lab could leave for everybody to see."""
    mounts = {line.partition(" ")[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    interfaces = {file.name for file in Path("/sys/class/net").iterdir()}
    return mounts | interfaces | {file.name for file in _entries(Path(HOME, "muster/labs"))}


if __name__ == "__main__":
    sys.exit(main())
