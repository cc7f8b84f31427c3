"""Rank 0 waits for a pool of processes that works 1 % of the time."""

import multiprocessing
import time

from pair import RANK, compute, done, goes, meet


def clean(number):
    while goes():
        compute(0.01)
        time.sleep(1)


def prepare():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(clean, range(2))


if RANK == 0:
    prepare()
meet()
done()
