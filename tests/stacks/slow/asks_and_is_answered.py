"""Rank 0 asks its user, who answers late; rank 1 waits."""

import os
import sys
import time

from pair import RANK, SECONDS, done, meet


def confirm():
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    if os.fork() == 0:
        time.sleep(SECONDS)
        os.write(writer, b"yes\n")
        os._exit(0)
    os.close(writer)
    return sys.stdin.readline()


if RANK == 0:
    confirm()
meet()
done()
