"""The deputy of a job with spare nodes: it outlives the host of the script. Standard library only, Python 3.6."""

import subprocess
import time
from typing import Callable, Sequence

_DEPUTY_S = 10


def keep_deputy(words: Sequence[str], host: str, say: Callable[[str], None]) -> None:
    """Run the step of the deputy, and show it every ten seconds that the script lives."""
    began = time.monotonic()
    null = subprocess.DEVNULL
    try:
        child = subprocess.Popen(list(words), stdin=subprocess.PIPE, stdout=null, stderr=null)
    except OSError:
        return
    assert child.stdin is not None
    try:
        while child.poll() is None:
            child.stdin.write(b"\n")
            child.stdin.flush()
            time.sleep(_DEPUTY_S)
    except OSError:
        pass
    status = child.wait()
    if 0 <= status < 128 and time.monotonic() < began + 60:
        trouble = "no deputy could be started on %s: if the host of this script dies, the job stands still" % host
        say("muster: note: " + trouble)
