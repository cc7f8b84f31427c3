"""Rank 0 is stopped by its site for some seconds now and then."""

import os
import signal
import subprocess
import sys
import time

from pair import RANK, SECONDS, compute, done, goes, meet


def work():
    own = os.getpid()
    text = f"import os, signal, time\nfor _ in range({int(SECONDS / 20)}):\n    time.sleep(8)\n    os.kill({own}, signal.SIGSTOP)\n    time.sleep(12)\n    os.kill({own}, signal.SIGCONT)\n"
    subprocess.Popen([sys.executable, "-I", "-c", text], start_new_session=True)
    while goes():
        compute(0.01)
        time.sleep(1)


if RANK == 0:
    work()
meet()
done()
