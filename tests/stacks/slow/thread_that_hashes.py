"""Rank 0 waits for a thread that hashes in C for 1 % of the time."""

import hashlib
import threading
import time

from pair import RANK, done, goes, meet

DATA = bytes(4 << 20)


def check():
    while goes():
        hashlib.sha256(DATA)
        time.sleep(1)


def verify():
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()


if RANK == 0:
    verify()
meet()
done()
