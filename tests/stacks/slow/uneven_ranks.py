"""Rank 1 has ended its part long before rank 0, which does a little now and then."""

import time

from pair import RANK, done, goes, meet


def part():
    while goes():
        with open("/dev/zero", "rb", buffering=0) as file:
            file.read(50000)
        time.sleep(2.5)


if RANK == 0:
    part()
meet()
done()
