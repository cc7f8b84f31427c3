"""Rank 0 joins two threads that hand a turn to each other."""

import threading
import time

from pair import RANK, compute, done, goes, meet


def play(mine, other):
    while goes():
        mine.wait(2)
        mine.clear()
        compute(0.01)
        time.sleep(1)
        other.set()


def run():
    first, second = threading.Event(), threading.Event()
    threads = [threading.Thread(target=play, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if RANK == 0:
    run()
meet()
done()
