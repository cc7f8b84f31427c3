"""What `muster bench` says of gloo, beside a plain loop that somebody wrote by hand, in turns.

    python benchmarks/collectives.py                    31 pairs, 16 and 64 MiB, two ranks on this machine
    python benchmarks/collectives.py --pairs 5 --json

Both measure all_reduce in the same two processes, one after the other, each pair in the other order; the loop is what a
person would write: a barrier, a clock, ten calls, the clock. The medians should agree within 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

MIB = 1 << 20
SIZES = (16 * MIB, 64 * MIB)
BAR = 0.05


def ranks(pairs: int) -> None:
    """In each of the two ranks: both ways, in turns; rank 0 prints the seconds."""
    import torch
    import torch.distributed as dist

    import muster
    from muster_bench.ranks.collectives import Members, make_case, timed

    with muster.world() as world:
        members = Members(None, tuple(range(world.size)), world.rank)
        for size in SIZES:
            case = make_case("all_reduce", members, size // 4, torch.float32, world.device, in_place=True)
            tensor = torch.ones(size // 4)
            iterations = max(2, 160 * MIB // size)

            def by_hand(tensor: Any = tensor, iterations: int = iterations) -> float:
                dist.barrier()
                began = time.perf_counter()
                for _ in range(iterations):
                    dist.all_reduce(tensor)
                return (time.perf_counter() - began) / iterations

            def ours(case: Any = case, iterations: int = iterations) -> float:
                return timed(case.run, world.barrier, lambda: None, iterations)

            ways = (ours, by_hand)
            for way in ways:
                way()
            for turn in range(pairs):
                seconds = {way.__name__: way() for way in (ways if turn % 2 else ways[::-1])}
                every = world.gather(seconds)
                slowest = {name: max(each[name] for each in every) for name in seconds}
                world.print(json.dumps({"size": size, **slowest}))
            case.refill()
            tensor.fill_(1)


def main() -> int:
    """Start the ranks, and say how far the two ways are apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rank:
        ranks(asked.pairs)
        return 0
    launch = [sys.executable, "-m", "muster", "run", "--here", "--quiet", "--no-label", "--ntasks-per-node", "2", "--"]
    words = [*launch, sys.executable, __file__, "--rank", "--pairs", str(asked.pairs)]
    out = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout
    measured = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    rows = [_row(size, [each for each in measured if each["size"] == size]) for size in SIZES]
    if asked.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"all_reduce over gloo, 2 ranks, {asked.pairs} pairs in turns; bus bandwidth in GB/s (median)")
    for row in rows:
        held = "" if abs(row["difference"]) <= BAR else "  MISSED"
        print(
            f"{row['size'] // MIB:4} MiB   ours {row['ours_gb_s']:.3f}   by hand {row['by_hand_gb_s']:.3f}   "
            f"difference {row['difference']:+.1%} (bar {BAR:.0%}; spread by hand {row['spread']:.1%}){held}"
        )
    return 0


def _row(size: int, measured: list[dict[str, float]]) -> dict[str, float]:
    ours, by_hand = (statistics.median(each[name] for each in measured) for name in ("ours", "by_hand"))
    hand = [each["by_hand"] for each in measured]
    return {
        "size": size,
        "ours_gb_s": size / ours / 1e9,
        "by_hand_gb_s": size / by_hand / 1e9,
        "difference": by_hand / ours - 1,
        "spread": statistics.pstdev(hand) / statistics.fmean(hand),
    }


if __name__ == "__main__":
    sys.exit(main())
