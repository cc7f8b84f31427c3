"""What a check costs: `python benchmarks/check.py`. Ours and the baseline in turns; medians.

binding     a process from start to end: this machine is read, ranks are judged; without torch, without us installed
judge       every judge over 256 ranks on 64 nodes, in one process
run         what --check adds to `muster run` of two ranks here
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from muster.cli.output import print_table
from muster.runner import checked, run
from muster_check.pack import place_check
from muster_check.ranks.table import CHECKS, judge

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from check.topologies import LUMI  # noqa: E402
from check.worlds import broken  # noqa: E402

MUSTER = str(Path(sys.executable).with_name("muster"))


def spent_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def binding_rows(pairs: int) -> list[tuple[str, str, str]]:
    """The process; and the judges of binding alone, on a node of 128 CPUs with 8 ranks."""
    from muster_check.ranks.facts import world_of

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "check.pyz")
        place_check(file)
        environment = {"PATH": os.environ["PATH"], "MASTER_PORT": "0"}
        words = [sys.executable, str(file), "facts", "{}"]
        ours, bare = [], []
        for _ in range(pairs):
            bare.append(spent_ms(lambda: checked(run([sys.executable, "-c", "pass"], env=environment))))
            ours.append(spent_ms(lambda: checked(run(words, env=environment))))
    world = world_of(LUMI.ranks())
    alone = [check for check in CHECKS if check.name in {"binding", "threads"}]
    judged = median(spent_ms(lambda: judge(world, checks=alone)) for _ in range(pairs))
    return [
        ("a rank's whole look at its node, a process", f"{median(ours):.0f} ms", f"bare Python {median(bare):.0f} ms"),
        ("of that: binding judged, 8 ranks on 128 CPUs", f"{judged:.1f} ms", "≤ 100 ms"),
    ]


def judge_row(pairs: int) -> tuple[str, str, str]:
    world = broken(lambda _ranks, _expected: None, nodes=64)
    return (
        "all judges, 256 ranks on 64 nodes",
        f"{median(spent_ms(lambda: judge(world)) for _ in range(pairs)):.0f} ms",
        "",
    )


def run_row(pairs: int) -> tuple[str, str, str]:
    """--check before two ranks that do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        words = [MUSTER, "run", "--here", "--quiet", "--ntasks-per-node", "2"]
        plain, with_check = [], []
        for _ in range(pairs):
            plain.append(spent_ms(lambda: checked(run([*words, "--", "true"], cwd=folder))))
            with_check.append(spent_ms(lambda: checked(run([*words, "--check", "--", "true"], cwd=folder))))
    return ("--check before 2 ranks here", f"+{median(with_check) - median(plain):.0f} ms", "≤ 20 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    rows = [*binding_rows(pairs), judge_row(pairs), run_row(pairs)]
    print_table("What a check costs", ("what", "measured", "beside"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
