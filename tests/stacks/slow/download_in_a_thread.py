"""Rank 0 waits for a thread that takes 1 kB every half second from a slow server."""

import concurrent.futures
import time

from pair import RANK, done, goes, link_to_other

link = link_to_other()


def download():
    while link.recv(4096):
        pass


def serve():
    while goes():
        link.sendall(bytes(1000))
        time.sleep(0.5)
    link.close()


def fetch():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(download).result()


fetch() if RANK == 0 else serve()
done()
