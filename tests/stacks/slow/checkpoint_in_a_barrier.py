"""Rank 0 writes a checkpoint slowly; rank 1 waits in a barrier."""

import os
import time

from pair import RANK, done, goes, meet


def save():
    with open("part", "wb") as file:
        while goes():
            file.write(bytes(16384))
            os.fsync(file.fileno())
            time.sleep(1)


if RANK == 0:
    save()
meet()
done()
