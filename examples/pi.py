"""Compute pi on CPUs: the area under 4 / (1 + x²) between 0 and 1, by trapezoids, shared by all ranks.

    python pi.py
    muster run -N 4 --ntasks-per-node 2 python pi.py --slices 100000000

The method "gloo" asks for no GPU, so this runs wherever torch does and tests the ordinary network.
"""

import argparse
import math
import time

import torch
import torch.distributed as dist

import muster

CHUNK = 1_000_000  # slices in memory at a time


def area(first: int, last: int, slices: int) -> torch.Tensor:
    """The area of the slices `first` to `last` (not included), in double precision."""
    total = torch.zeros(1, dtype=torch.double)
    for start in range(first, last, CHUNK):
        edges = torch.arange(start, min(start + CHUNK, last) + 1, dtype=torch.double) / slices
        heights = 4 / (1 + edges * edges)
        total += (heights[:-1] + heights[1:]).sum() / (2 * slices)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute pi on CPUs, shared by all ranks.")
    parser.add_argument("--slices", type=int, default=10_000_000)
    slices = parser.parse_args().slices

    with muster.world("gloo") as world:
        started = time.perf_counter()
        # Your own computation goes here: each rank does its share, and one collective puts the shares together.
        share = area(slices * world.rank // world.size, slices * (world.rank + 1) // world.size, slices)
        dist.all_reduce(share)
        seconds = time.perf_counter() - started

        pi = share.item()
        world.print(f"pi is about {pi:.12f}, off by {abs(pi - math.pi):.1e}; {world.size} ranks took {seconds:.3f} s")
        if abs(pi - math.pi) > 1e-9:
            raise SystemExit("that is too far off: a share is missing")


if __name__ == "__main__":
    main()
