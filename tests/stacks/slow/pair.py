"""What the scripts beside this one share: two ranks without torch, the time that they run, and their meeting."""

import os
import socket
import subprocess
import sys
import time

RANK = int(os.environ["RANK"])
SECONDS = float(os.environ.get("SECONDS_EACH", "60"))
END = time.monotonic() + SECONDS


def goes():
    return time.monotonic() < END


def compute(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        sum(range(100))


def later(program):
    """Start a Python program that begins when the time is over; nobody waits for it."""
    text = f"import os, sys, time\ntime.sleep({SECONDS})\n{program}"
    return subprocess.Popen([sys.executable, "-I", "-c", text], stdin=subprocess.DEVNULL, start_new_session=True)


_PLACE = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
# It listens from the start, so a rank that comes first waits in recv.
_SERVER = socket.create_server(("", _PLACE[1])) if RANK == 0 else None


def link_to_other():
    """Return a connection between rank 0 and rank 1."""
    if _SERVER is not None:
        return _SERVER.accept()[0]
    for _ in range(3000):
        try:
            return socket.create_connection(_PLACE)
        except OSError:
            time.sleep(0.1)
    raise TimeoutError


def meet():
    """Wait until the other rank has come: in recv, as in a barrier."""
    with link_to_other() as link:
        link.sendall(b".")
        link.recv(1)


def done():
    print("done", flush=True)
