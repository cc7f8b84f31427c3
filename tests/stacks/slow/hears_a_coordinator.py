"""Both ranks wait for a coordinator, which says something every 7 s."""

import threading
import time

from pair import RANK, compute, done, goes, link_to_other

link = link_to_other()


def coordinate():
    while goes():
        link.sendall(b"step")
        time.sleep(7)
    link.close()


if RANK == 0:
    thread = threading.Thread(target=coordinate)
    thread.start()
    thread.join()
else:
    while link.recv(4):
        compute(0.002)
done()
