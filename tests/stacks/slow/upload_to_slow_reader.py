"""Rank 0 sends as fast as rank 1 reads, and that is slow."""

import time

from pair import RANK, compute, done, goes, link_to_other

link = link_to_other()


def upload():
    sent = 0
    try:
        while goes():
            sent += link.send(bytes(1 << 16))
    except OSError:
        pass
    link.close()


def take():
    while goes() and link.recv(4096):
        compute(0.003)
        time.sleep(1)
    link.close()


upload() if RANK == 0 else take()
done()
