"""Rank 0 reads 200 bytes every 5 s from a stream."""

import time

from pair import RANK, done, goes, link_to_other

link = link_to_other()


def read():
    while link.recv(200):
        pass


def feed():
    while goes():
        link.sendall(bytes(200))
        time.sleep(5)
    link.close()


read() if RANK == 0 else feed()
done()
