"""Rank 0 uploads 100 kB/s through a socket; rank 1 takes it."""

import socket
import time

from pair import RANK, done, goes, link_to_other

link = link_to_other()
link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)


def upload():
    while goes():
        link.sendall(bytes(20000))
        time.sleep(0.2)
    link.close()


def take():
    while link.recv(20000):
        pass


upload() if RANK == 0 else take()
done()
