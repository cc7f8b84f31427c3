"""What the site profiles cost: `make bench-lab`.

`muster site list` is started in turns with a bare Python; a profile is loaded in a fresh interpreter each time, once
to warm the disk and once on the clock, so no cache of ours helps it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from muster.cli.output import print_table
from muster.runner import checked, run
from muster.sites.heads import BUNDLED

PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
NAMES = sorted(path.stem for path in Path(BUNDLED).glob("*.toml"))
LIST_BAR_MS, LOAD_BAR_MS, PROFILES_BAR = 150.0, 20.0, 30

LOAD = """
import sys, time
from muster.sites.heads import SearchPath
from muster.sites.load import load
load("laptop", SearchPath(site_wide=None))
began = time.perf_counter()
load(sys.argv[1], SearchPath(site_wide=None))
print((time.perf_counter() - began) * 1000)
"""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    figure: str
    bar: str
    held: bool


def main() -> int:
    """Exit status: 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=31, help="turns of the comparison (31)")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    options = parser.parse_args()
    rows = [listing(options.pairs), *loading(max(3, options.pairs // 8))]
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        shown = [(row.what, row.figure, row.bar, "" if row.held else "missed") for row in rows]
        print_table("Sites", ("WHAT", "FIGURE", "BAR", ""), shown)
    return 0 if all(row.held for row in rows) else 1


def listing(pairs: int) -> Row:
    """`muster site list` against a bare Python of the same turn."""
    taken: dict[str, list[float]] = {"list": [], "python": []}
    commands = {"list": [MUSTER, "site", "list"], "python": [PYTHON, "-c", "pass"]}
    for _ in range(pairs):
        for name in random.sample(list(commands), 2):
            taken[name].append(_timed_ms(commands[name]))
    ours, bare = median(taken["list"]), median(taken["python"])
    figure = f"{ours:.0f} ms, {ours / bare:.1f} bare Pythons, {len(NAMES)} profiles"
    bar = f"{LIST_BAR_MS:.0f} ms, {PROFILES_BAR} profiles"
    return Row("muster site list", figure, bar, ours <= LIST_BAR_MS and len(NAMES) >= PROFILES_BAR)


def _timed_ms(argv: list[str]) -> float:
    began = time.perf_counter()
    checked(run(argv))
    return (time.perf_counter() - began) * 1000


def loading(times: int) -> list[Row]:
    """Reading, layering and checking one profile: each of them, and the slowest by name."""
    taken = {
        name: median(float(checked(run([PYTHON, "-c", LOAD, name])).stdout) for _ in range(times)) for name in NAMES
    }
    slowest = max(taken, key=lambda name: taken[name])
    middle = median(taken.values())
    bar = f"{LOAD_BAR_MS:.0f} ms"
    return [
        Row("loading a profile, the median of all", f"{middle:.1f} ms", bar, middle <= LOAD_BAR_MS),
        Row(f"loading the slowest, {slowest}", f"{taken[slowest]:.1f} ms", bar, taken[slowest] <= LOAD_BAR_MS),
    ]


if __name__ == "__main__":
    sys.exit(main())
