"""Guards that the door of a closed job lets the user's own processes pass, and nobody else's."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from muster.launchers.base import DOOR_PIECES
from muster.rank import door_owner
from muster.rank.door import Door, answer_door, prove
from muster.rank.door_owner import find_in_table, find_owner, own_addresses, plain
from muster.rank.door_store import Client, Store
from muster.render.parts import compose, part

KEY = bytes(range(32))
HELLO = b"\x00" + (0x3C85F7CE).to_bytes(4, "little")  # how a client of torch's store begins
PING = HELLO + b"\x0d1234"
PATIENCE_S = 60.0
NOBODY: Any = {"user": 65534, "group": 65534}


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


class OpenDoor:
    """A door that serves in a thread, with an echo behind it."""

    def __init__(self, nodes: int = 1, *, is_local: bool = True) -> None:
        self.port = free_port()
        self.door = Door(KEY, self.port, nodes)
        if not is_local:
            self.door.own = frozenset()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.door.run, args=(self.ended.is_set,), daemon=True)

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.ended.set()
        self.thread.join(PATIENCE_S)
        for reader, _ in self.door.watched.values():
            getattr(reader, "socket", self.door.listener).close()
        for newcomer in self.door.newcomers:
            newcomer.socket.close()
        self.door.poll.close()


@pytest.fixture
def opened() -> Iterator[list[OpenDoor]]:
    doors: list[OpenDoor] = []
    yield doors
    for each in doors:
        each.close()


def say(port: int, words: bytes, host: str = "127.0.0.1") -> bytes:
    """Return what comes back first; nothing where the connection is closed."""
    with socket.create_connection((host, port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(words)
            return connection.recv(1 << 16)
        except ConnectionError:
            return b""


def test_the_users_own_connection_reaches_the_store(opened: list[OpenDoor]) -> None:
    opened.append(OpenDoor())
    opened[0].start()

    assert say(opened[0].port, PING) == b"1234"


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root can be somebody else")
def test_another_user_of_the_same_host_is_refused_by_name(
    opened: list[OpenDoor], capfd: pytest.CaptureFixture[str]
) -> None:
    opened.append(OpenDoor())
    opened[0].start()
    code = f"""
import socket
c = socket.create_connection(("127.0.0.1", {opened[0].port})); c.settimeout({PATIENCE_S})
try:
    c.sendall({PING!r}); print(c.recv(100))
except ConnectionError:
    print(b"")
"""
    # Its own files may be closed to the other user: the system's Python, without them.
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    said = subprocess.run([python, "-c", code], check=False, cwd="/", capture_output=True, text=True, **NOBODY)

    assert said.stdout == "b''\n", said.stderr
    assert "refused a connection to the ranks' store from 127.0.0.1: nobody" in capfd.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root can be somebody else")
def test_a_stranger_who_speaks_and_leaves_at_once_writes_nothing(
    opened: list[OpenDoor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel shows a connection that nobody holds any more as root's."""
    heard: list[str] = []
    opened.append(OpenDoor())
    monkeypatch.setattr(Client, "__call__", lambda *_: heard.append("a word"))
    code = f"""
import socket
for _ in range(20):
    with socket.create_connection(("127.0.0.1", {opened[0].port})) as c:
        c.sendall({PING!r})
"""
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    subprocess.run([python, "-c", code], check=True, cwd="/", **NOBODY)
    opened[0].start()  # all of them have left before the door looks

    assert say(opened[0].port, b"muster-1\n" * 2) == b""
    assert heard == []


def test_the_kernel_says_who_owns_a_connection() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        with socket.create_connection(server.getsockname()) as client:
            mine, theirs = client.getsockname(), client.getpeername()
            for find in (find_owner, find_in_table):
                assert find(mine, theirs)[0] == os.getuid()
                assert find(mine, ("127.0.0.1", 1)) == (None, "")
                assert find(theirs, ("127.0.0.1", 1)) == (None, ""), "it listens, and is no connection"
        assert find_owner(("192.0.2.77", 4), theirs) == (None, "")


def test_a_kernel_that_answers_no_questions_is_read_by_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_owner, "_NETLINK_SOCK_DIAG", 99)
    monkeypatch.setattr(door_owner, "_kernel", door_owner.KernelAnswers())
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        socket.create_connection(server.getsockname()) as end,
    ):
        assert find_owner(end.getsockname(), end.getpeername())[0] == os.getuid()


def test_a_connection_by_ipv6_is_known_by_its_ipv4_address() -> None:
    with closing(socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
            peer = (plain(accepted.getpeername()[0]), accepted.getpeername()[1])
            assert peer == client.getsockname()
            assert find_owner(peer, ("127.0.0.1", port))[0] == os.getuid()


def test_the_addresses_of_this_host_hold_those_that_connect_from_here() -> None:
    addresses = own_addresses()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(("192.0.2.1", 9))
        assert probe.getsockname()[0] in addresses
    assert {"127.0.0.1", "::1"} <= set(addresses)


# The door of another host: here it has an address of its own, and this host's kernel is not asked by the first door.


def other_host(port: int, key: bytes = KEY) -> threading.Thread:
    thread = threading.Thread(target=answer_door, args=(key, "127.0.0.1", port, lambda: False), daemon=True)
    thread.start()
    return thread


def test_the_door_of_another_host_vouches_for_its_user(opened: list[OpenDoor]) -> None:
    opened.append(OpenDoor(2, is_local=False))
    opened[0].start()
    other_host(opened[0].port)

    assert say(opened[0].port, PING) == b"1234"


def test_a_rank_that_comes_before_the_door_of_its_host_waits(opened: list[OpenDoor]) -> None:
    opened.append(OpenDoor(2, is_local=False))
    opened[0].start()
    with socket.create_connection(("127.0.0.1", opened[0].port), timeout=PATIENCE_S) as connection:
        connection.sendall(PING)
        other_host(opened[0].port)
        assert connection.recv(100) == b"1234"


def test_the_door_of_another_host_ends_with_its_rank(opened: list[OpenDoor]) -> None:
    """While that of rank 0's host holds their connection open."""
    opened.append(OpenDoor(2, is_local=False))
    opened[0].start()
    over = threading.Event()
    door = threading.Thread(target=answer_door, args=(KEY, "127.0.0.1", opened[0].port, over.is_set), daemon=True)
    door.start()
    assert say(opened[0].port, PING) == b"1234"

    over.set()
    door.join(PATIENCE_S)
    assert not door.is_alive()


def test_a_host_without_a_door_is_refused_once_all_have_come(
    opened: list[OpenDoor], capfd: pytest.CaptureFixture[str]
) -> None:
    opened.append(OpenDoor(1, is_local=False))
    opened[0].start()

    assert say(opened[0].port, PING) == b""
    assert "from 127.0.0.1: a user of a host that is not the job's" in capfd.readouterr().err


def test_a_door_that_does_not_know_the_secret_vouches_for_nobody(
    opened: list[OpenDoor], capfd: pytest.CaptureFixture[str]
) -> None:
    opened.append(OpenDoor(2, is_local=False))
    opened[0].start()
    other_host(opened[0].port, bytes(32)).join(PATIENCE_S)
    assert "does not know the secret of this job" in capfd.readouterr().err  # the other side found out first

    with socket.create_connection(("127.0.0.1", opened[0].port), timeout=PATIENCE_S) as connection:
        nonce = b"0" * 32
        connection.sendall(b"muster-1 " + nonce + b"\n")
        theirs, proof = connection.recv(1000).split()
        facts = b"[]".hex().encode()
        # What the door has said itself is no proof; nor is one for another nonce.
        for wrong in (proof, prove(KEY, b"node", nonce, nonce, facts).hex().encode()):
            connection.sendall(b" ".join([b"node", facts, wrong]) + b"\n")
            break
        assert connection.recv(10) == b""
        assert theirs
    assert "claims to be a door of this job" in capfd.readouterr().err
    assert not opened[0].door.nodes


def test_many_connections_that_say_nothing_disturb_nobody(opened: list[OpenDoor]) -> None:
    opened.append(OpenDoor())
    opened[0].start()
    silent = [socket.create_connection(("127.0.0.1", opened[0].port)) for _ in range(400)]
    try:
        assert say(opened[0].port, PING) == b"1234"
    finally:
        for each in silent:
            each.close()


def test_more_own_connections_than_may_be_silent_all_pass(opened: list[OpenDoor]) -> None:
    """Seen with 4,096 ranks: those that had not spoken yet were refused as strangers."""
    opened.append(OpenDoor(40, is_local=False))
    opened[0].start()
    ranks = [socket.create_connection(("127.0.0.1", opened[0].port), timeout=PATIENCE_S) for _ in range(1500)]
    try:
        for rank in ranks:
            rank.sendall(PING)
        other_host(opened[0].port)
        assert {rank.recv(10) for rank in ranks} == {b"1234"}
    finally:
        for rank in ranks:
            rank.close()


def test_random_words_do_not_end_the_door(opened: list[OpenDoor]) -> None:
    opened.append(OpenDoor(2, is_local=False))
    opened[0].start()
    hostile = [b"muster-1", b"muster-1\n", b"muster-1 \n", b"muster-1 a b\nnode\n", b"muster-1 a\nnode zz zz\n"]
    hostile += [b"muster-1 a\nowner 0 61\n", b"muster-1 " + b"a" * 200_000, *(os.urandom(50) for _ in range(20))]
    for words in hostile:
        with suppress(OSError), socket.create_connection(("127.0.0.1", opened[0].port)) as connection:
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)  # the door may have closed it already
    other_host(opened[0].port)

    assert say(opened[0].port, PING) == b"1234"


# The oldest Python that a host may have, where there is one here.
PYTHONS = [sys.executable, *map(str, sorted(Path.home().glob(".pyenv/versions/3.6.*/bin/python3.6")))]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_hosts_own_python_runs_its_text_until_the_rank_ends(python: str) -> None:
    port = free_port()
    begin = f'"$@" store {port} "$$" 1 & exec sleep 600'
    words = ["sh", "-c", begin, "sh", python, "-I", "-S", "-c", compose(DOOR_PIECES)]
    with subprocess.Popen(words, env={"MUSTER_DOOR_KEY": KEY.hex()}, stderr=subprocess.PIPE) as rank:
        assert await_answer(port) == b"1234"
        rank.kill()
        assert rank.communicate(timeout=PATIENCE_S)[1] == b""  # the door held it too, and has ended


def await_answer(port: int) -> bytes:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return say(port, PING)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_pieces_of_its_text_have_no_name_twice() -> None:
    names: list[str] = []
    for piece in DOOR_PIECES:
        for node in ast.parse(part(piece)).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names += [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            names += [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
    assert [name for name in names if names.count(name) > 1 and name != "TYPE_CHECKING"] == []


def test_a_queue_of_the_store_gives_the_first_and_loses_it() -> None:
    store = Store()
    store.push(b"line", b"first")
    store.push(b"line", b"second")
    assert store.pop(b"line").endswith(b"first")
    assert store.pop(b"line").endswith(b"second")
    assert store.pop(b"line") == bytes(8)
    assert store.pop(b"other") == bytes(8)
