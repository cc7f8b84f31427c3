"""Rank 0 gives tar an archive piece by piece."""

import io
import os
import subprocess
import tarfile
import time

from pair import RANK, done, goes, meet


def unpack():
    os.mkdir("data")
    child = subprocess.Popen(["tar", "-x", "-C", "data"], stdin=subprocess.PIPE)
    with tarfile.open(fileobj=child.stdin, mode="w|") as archive:
        number = 0
        while goes():
            info = tarfile.TarInfo(f"f{number}")
            info.size = 2000
            archive.addfile(info, io.BytesIO(bytes(2000)))
            number += 1
            time.sleep(0.5)
    child.stdin.close()
    child.wait()


if RANK == 0:
    unpack()
meet()
done()
