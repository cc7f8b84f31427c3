"""Rank 0 waits for a child that waits for a child that works a little."""

import subprocess
import sys
import time

from pair import RANK, SECONDS, done, meet

TEXT = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end:\n    sum(range(200000))\n    time.sleep(2)\n"


def run():
    subprocess.run(["bash", "-c", f"{sys.executable} -I -c '{TEXT}'; true"], check=True)


if RANK == 0:
    run()
meet()
done()
