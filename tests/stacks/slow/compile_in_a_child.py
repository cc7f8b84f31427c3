"""Rank 0 compiles in children, one after the other; rank 1 waits."""

import os
import subprocess
import time

from pair import RANK, done, goes, meet

SOURCE = b"int main(void) { return 0; }"


def build():
    while goes():
        subprocess.run(["gcc", "-O2", "-x", "c", "-", "-o", os.devnull], input=SOURCE, check=True)
        time.sleep(2)


if RANK == 0:
    build()
meet()
done()
