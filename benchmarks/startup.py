"""What the command costs before it does anything, in bare Pythons: `python -c pass` of the same minute.

Commands and baseline are started in turns, in an order that changes, and medians are compared: a busy machine
slows both. The spread of the baseline against itself says how much of a difference is noise.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from muster.cli.output import print_table
from muster.cli.verbs import VERBS
from muster.runner import checked, run

MUSTER = str(Path(sys.executable).with_name("muster"))
BARE = (sys.executable, "-c", "pass")
TOP_LIMIT = 4.0
VERB_LIMIT = 6.0


class Case(NamedTuple):
    """A command, and how many bare Pythons it may cost."""

    name: str
    argv: tuple[str, ...]
    limit: float | None = None


def cases() -> list[Case]:
    """The baseline, the baseline once more, the first page, and every verb's own."""
    pages: dict[tuple[str, ...], float] = {("--help",): TOP_LIMIT, ("--version",): TOP_LIMIT}
    pages |= {(verb.name, "--help"): VERB_LIMIT for verb in VERBS}
    ours = [Case(f"muster {' '.join(words)}", (MUSTER, *words), limit) for words, limit in pages.items()]
    return [Case("python -c pass", BARE), Case("python -c pass, again", BARE), *ours]


def main() -> int:
    """Exit status: 1 if a ratio is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31, help="starts of each command (31)")
    rounds = parser.parse_args().rounds
    compared = cases()
    middle_s = {name: median(spent) for name, spent in measure(compared, rounds).items()}
    rows = []
    for case in compared:
        ratio = middle_s[case.name] / middle_s[compared[0].name]
        limit = "" if case.limit is None else f"≤ {case.limit:g}"
        verdict = "over" if case.limit is not None and ratio > case.limit else ""
        rows.append([case.name, f"{middle_s[case.name] * 1000:.0f}", f"{ratio:.2f}", limit, verdict])
    print_table(f"start, median of {rounds}", ["command", "ms", "bare Pythons", "limit", ""], rows)
    return int(any(row[-1] for row in rows))


def measure(compared: list[Case], rounds: int) -> dict[str, list[float]]:
    """Start every command `rounds` times, in turns; seconds to the end of each start."""
    seconds: dict[str, list[float]] = {case.name: [] for case in compared}
    for turn in range(-1, rounds):  # the first turn fills the caches and is not counted
        for case in random.sample(compared, len(compared)):
            begun = time.perf_counter()
            checked(run(case.argv))
            if turn >= 0:
                seconds[case.name].append(time.perf_counter() - begun)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
