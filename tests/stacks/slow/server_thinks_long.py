"""Rank 0 waits for the one answer of a server, which thinks until the end."""

import socket
import subprocess
import sys

from pair import RANK, SECONDS, done, meet

TEXT = (
    "import socket\ns = socket.socket(fileno={})\nc = s.accept()[0]\nimport time\ntime.sleep({})\nc.sendall(b'answer')"
)


def ask():
    server = socket.create_server(("127.0.0.1", 0))
    number = server.fileno()
    text = TEXT.format(number, SECONDS)
    subprocess.Popen([sys.executable, "-I", "-c", text], pass_fds=(number,), start_new_session=True)
    with socket.create_connection(server.getsockname()) as link:
        return link.recv(100)


if RANK == 0:
    ask()
meet()
done()
