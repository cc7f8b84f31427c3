"""Rank 0 copies a file by the kernel, 1 MB every 3 s."""

import os
import time

from pair import RANK, done, goes, meet


def copy():
    with open("from", "wb") as file:
        file.truncate(1 << 26)
    with open("from", "rb") as source, open("to", "wb") as target:
        while goes():
            os.copy_file_range(source.fileno(), target.fileno(), 1 << 20)
            time.sleep(3)


if RANK == 0:
    copy()
meet()
done()
