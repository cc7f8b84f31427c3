"""Rank 0 goes through a mapped file, some pages a second."""

import mmap
import time

from pair import RANK, done, goes, meet


def scan():
    with open("map", "wb") as file:
        file.truncate(1 << 24)
    with open("map", "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        number = 0
        while goes():
            for _ in range(200):
                pages[number % (1 << 24)] = 1
                number += 4096
            time.sleep(1)


if RANK == 0:
    scan()
meet()
done()
