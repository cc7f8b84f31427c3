"""Rank 0 waits for a semaphore that a child gives every 6 s."""

import multiprocessing
import time

from pair import RANK, compute, done, goes, meet


def produce(ready):
    while goes():
        compute(0.02)
        time.sleep(6)
        ready.release()


def consume():
    context = multiprocessing.get_context("fork")
    ready = context.Semaphore(0)
    child = context.Process(target=produce, args=(ready,), daemon=True)
    child.start()
    while goes():
        ready.acquire()


if RANK == 0:
    consume()
meet()
done()
