"""Rank 0 counts in a loop of Python of two lines; rank 1 waits."""

import os

from pair import RANK, done, goes, meet


def count():
    number = 0
    while goes():
        number += 1
    return number


os.nice(10)
if RANK == 0:
    count()
meet()
done()
