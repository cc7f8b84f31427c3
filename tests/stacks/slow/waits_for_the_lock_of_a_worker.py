"""Rank 1 waits for the lock of a file that rank 0 holds while it works a little."""

import fcntl
import time

from pair import RANK, compute, done, goes, meet


def hold(file):
    fcntl.flock(file, fcntl.LOCK_EX)
    while goes():
        compute(0.005)
        time.sleep(2)


file = open("index.lock", "w")
if RANK == 0:
    hold(file)
    file.close()
else:
    time.sleep(2)
    fcntl.flock(file, fcntl.LOCK_EX)
    file.close()
meet()
done()
