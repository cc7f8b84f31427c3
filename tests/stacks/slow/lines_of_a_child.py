"""Rank 0 waits for a line of a child, which writes one every 8 s."""

import subprocess
import sys
import time

from pair import RANK, SECONDS, done, meet

TEXT = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end:\n    print(sum(range(10**5)), flush=True)\n    time.sleep(8)\n"


def read():
    child = subprocess.Popen([sys.executable, "-I", "-c", TEXT], stdout=subprocess.PIPE)
    for _ in child.stdout:
        pass
    child.wait()


if RANK == 0:
    read()
meet()
done()
