"""Rank 0 sleeps in a C library, a second at a time, and works a little."""

import ctypes

from pair import RANK, compute, done, goes, meet


def wait():
    libc = ctypes.CDLL(None)
    while goes():
        libc.usleep(900000)
        compute(0.004)


if RANK == 0:
    wait()
meet()
done()
