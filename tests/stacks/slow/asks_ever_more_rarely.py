"""Rank 0 tries to connect, and waits twice as long each time; the server comes."""

import socket
import time

from pair import RANK, done, later, meet

TEXT = "import socket\ns = socket.create_server(('127.0.0.1', {}), reuse_port=True)\ns.settimeout(60)\ns.accept()"


def connect(port):
    pause = 1
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(min(pause, 16))
            pause *= 2


if RANK == 0:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    later(TEXT.format(port))
    connect(port)
meet()
done()
