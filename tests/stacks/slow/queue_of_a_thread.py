"""Rank 0 takes from a queue what a thread reads from a slow pipe."""

import queue
import subprocess
import threading

from pair import RANK, SECONDS, compute, done, meet


def read(lines, ready):
    for line in lines:
        ready.put(line)
    ready.put(None)


def consume():
    text = f"for i in $(seq {int(SECONDS / 4)}); do echo $i; sleep 4; done"
    child = subprocess.Popen(["bash", "-c", text], stdout=subprocess.PIPE)
    ready = queue.Queue()
    threading.Thread(target=read, args=(child.stdout, ready), daemon=True).start()
    while ready.get() is not None:
        compute(0.001)


if RANK == 0:
    consume()
meet()
done()
