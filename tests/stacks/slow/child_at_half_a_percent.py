"""Rank 0 waits for a child that uses half a percent of a core; rank 1 waits for rank 0."""

import subprocess
import sys
import time

from pair import RANK, SECONDS, done, meet

TEXT = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end:\n    begun = time.process_time()\n    while time.process_time() - begun < 0.005: pass\n    time.sleep(1)\n"


def tokenize():
    subprocess.run([sys.executable, "-I", "-c", TEXT], check=True)


if RANK == 0:
    tokenize()
meet()
done()
