"""The door of a closed job: only processes of the job's user, on the job's nodes, reach the store of its ranks.

torch's store listens on all interfaces and asks nobody who he is. Here the door of rank 0's host listens where the
ranks were told to meet, and is the store: it speaks the protocol of torch's clients. For each connection, it first asks
who owns the other end: the kernel of this host, if the connection comes from here, else the door of that host, which
has shown that it knows the job's secret. So the ranks need not know of it, and the door needs no torch. Started as
`python -c TEXT store PORT RANK_PID NODES` on rank 0's host and `node PORT RANK_PID ADDRESS` on the others; the secret
stands in the environment, which other users cannot read. One long file, since the job carries it as a text, and with
few imports: each costs the start of every job.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pwd
import resource
import select
import selectors
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Set, Tuple

    Address = Tuple[str, int]
    Owner = Tuple[Optional[int], str]
    """Who owns one end of a connection, and the name; None: this host has no such connection."""

_KEY = "MUSTER_DOOR_KEY"
_HELLO = b"muster-1"
_NONCE_BYTES = 16
_CHUNK_BYTES = 1 << 18
# More than this waits for a slow reader: the reader's own words are not read meanwhile.
_MOST_WAITING_BYTES = 1 << 20
_LONGEST_VALUE_BYTES = 1 << 30
# A connection that says nothing, or whose host has no door yet, is closed after so long.
_SILENT_S = 20.0
_UNKNOWN_S = 60.0
# So many that say nothing may wait at a time; the oldest one goes. 10,000 ranks may start at once.
_MOST_SILENT, _MOST_SILENT_PER_NODE = 1024, 64
_MOST_AT_ONCE = 256
_RETRY_S = 0.05
_LOOK_S = 0.05
# One line for each stranger and this long: 10,000 connections do not fill the log.
_TELL_AGAIN_S = 60.0
_OF_NO_HOST = "a user of a host that is not the job's"
_ESTABLISHED = 1
# Of linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1

_NOBODY = None, ""


def say(text: str) -> None:
    """Write a line for the job's log."""
    with contextlib.suppress(OSError):
        os.write(2, f"muster: door: {text}\n".encode("utf-8", "backslashreplace"))


def prove(key: bytes, *parts: bytes) -> bytes:
    """Return what only a process that knows the key can say of these parts."""
    import hmac

    return hmac.new(key, b"".join(struct.pack("!I", len(part)) + part for part in parts), "sha256").digest()


def is_proven(claim: bytes, key: bytes, *parts: bytes) -> bool:
    """Return whether a claim, in hexadecimal digits, is what the key proves of these parts."""
    import hmac

    return hmac.compare_digest(prove(key, *parts).hex().encode(), claim)


# Who owns a connection.


def plain(address: str) -> str:
    """Return an address as IPv4 where the kernel shows it in IPv6 form; a zone is left out."""
    address = address.partition("%")[0]
    return address[7:] if address.startswith("::ffff:") and "." in address else address


class KernelAnswers:
    """Asks the kernel about one connection: what that takes does not grow with the number of connections."""

    def __init__(self) -> None:
        self.has_answered = False

    def ask(self, mine: Address, theirs: Address) -> Optional[Owner]:
        """Return who owns the end `mine`, or None if the kernel does not say."""
        family = socket.AF_INET6 if ":" in mine[0] else socket.AF_INET
        ends = [socket.inet_pton(family, address).ljust(16, b"\0") for address in (mine[0], theirs[0])]
        words = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
        words += (
            struct.pack("!HH", mine[1], theirs[1]) + b"".join(ends) + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        )
        head = struct.pack("=IHHII", 16 + len(words), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
        try:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
                kernel.settimeout(1.0)
                kernel.send(head + words)
                answer = kernel.recv(4096)
        except OSError:
            return None
        if struct.unpack_from("=H", answer, 4)[0] != _SOCK_DIAG_BY_FAMILY:
            # No such connection; or no such part of the kernel, if it has never answered.
            return _NOBODY if self.has_answered else None
        self.has_answered = True
        state, uid = answer[17], struct.unpack_from("=I", answer, 16 + 64)[0]
        # Once nobody holds a connection any more, the kernel shows it as root's, whoever's it was.
        return (uid, _name_of(uid)) if state == _ESTABLISHED else _NOBODY


_kernel = KernelAnswers()


def find_owner(mine: Address, theirs: Address) -> Owner:
    """Return who owns the end `mine` of a connection to `theirs`, by this host's kernel."""
    answer = _kernel.ask(mine, theirs)
    return find_in_table(mine, theirs) if answer is None else answer


def find_in_table(mine: Address, theirs: Address) -> Owner:
    """Return the same as a kernel tells it that answers no questions: from the table of all connections."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as table:
            port_digits = f":{mine[1]:04X} "
            for line in table:
                if port_digits in line:
                    fields = line.split()
                    is_held = int(fields[3], 16) == _ESTABLISHED
                    if is_held and _address_of(fields[1]) == mine and _address_of(fields[2]) == theirs:
                        uid = int(fields[7])
                        return uid, _name_of(uid)
    return _NOBODY


def _address_of(text: str) -> Address:
    """Return the address in a row of /proc/net/tcp: 0100007F:1F90 is 127.0.0.1, port 8080."""
    digits, _, port = text.partition(":")
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return plain(socket.inet_ntop(family, raw)), int(port, 16)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def own_addresses() -> List[str]:
    """Return the addresses of this host's interfaces."""
    addresses = {"127.0.0.1", "::1"}
    with contextlib.suppress(OSError), open("/proc/net/fib_trie", encoding="ascii") as table:
        before = ""
        for line in table:
            if "/32 host LOCAL" in line:
                addresses.add(before)
            before = line.split()[-1] if line.strip().startswith("|--") else before
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as table:
        for line in table:
            addresses.add(plain(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))))
    return sorted(addresses)


# The store behind the door.


class Close(Exception):
    """The store's protocol lacks the word that a client says: the client's connection is closed."""

    __slots__ = ()


class More(Exception):
    """The rest of a word has not come yet."""

    __slots__ = ()


class Store:
    """What the ranks keep: torch's TCPStore, as its clients know it."""

    def __init__(self) -> None:
        self.values: Dict[bytes, bytes] = {}
        self.queues: Dict[bytes, Deque[bytes]] = {}
        self.waiting: Dict[bytes, Dict["Client", None]] = {}
        self.barriers: Dict[bytes, Dict["Client", None]] = {}

    def has(self, key: bytes) -> bool:
        """Return whether a key has a value, or a queue that is not empty."""
        return key in self.values or bool(self.queues.get(key))

    def set(self, key: bytes, value: bytes) -> None:
        """Set a value, and wake all that wait for it."""
        self.values[key] = value
        for client in self.waiting.pop(key, ()):
            client.awaited.discard(key)
            if not client.awaited:
                client.send(_STOP_WAITING)

    def add(self, key: bytes, amount: int) -> int:
        """Add to a number, which begins at 0, and return the sum."""
        import re

        number = re.match(rb"\s*[+-]?[0-9]+", self.values.get(key, b"0"))
        total = (int(number.group()) if number is not None else _raise_close()) + amount
        self.set(key, b"%d" % total)
        return total

    def compare_set(self, key: bytes, expected: bytes, desired: bytes) -> bytes:
        """Set a value where the expected one holds, or none is expected and none is there; return what holds then."""
        held = self.values.get(key)
        if held == expected or (held is None and not expected):
            self.set(key, desired)
            return desired
        return expected if held is None else held

    def push(self, key: bytes, value: bytes) -> None:
        """Put a value at the end of a queue, and wake one that waits for it."""
        self.queues.setdefault(key, collections.deque()).append(value)
        waiting = self.waiting.get(key, {})
        for client in list(waiting):
            del waiting[client]
            client.awaited.discard(key)
            if not client.awaited:
                client.send(_STOP_WAITING)
                return

    def pop(self, key: bytes) -> bytes:
        """Return how many a queue holds, and the first of them, which the queue loses."""
        queue = self.queues.get(key, collections.deque())
        return _I64.pack(len(queue)) + (_vector(queue.popleft()) if queue else b"")

    def wait(self, client: "Client", keys: List[bytes]) -> bytes:
        """Return the answer of one who waits for keys, or nothing: then the answer comes with the last of them."""
        client.awaited = {key for key in keys if not self.has(key)}
        for key in client.awaited:
            self.waiting.setdefault(key, {})[client] = None
        return b"" if client.awaited else _STOP_WAITING

    def meet(self, client: "Client", key: bytes, size: int) -> bytes:
        """Count one in; the last of so many wakes the others."""
        here = self.barriers.setdefault(key, {})
        count = self.add(key, 1)
        if size <= 0 or count % size:
            here[client] = None
            return b""
        del self.barriers[key]
        for other in here:
            other.send(_STOP_WAITING)
        return _STOP_WAITING

    def forget(self, client: "Client") -> None:
        """Wake a client no more."""
        for key in client.awaited:
            self.waiting.get(key, {}).pop(client, None)
        client.awaited = set()
        for here in self.barriers.values():
            here.pop(client, None)


_STOP_WAITING, _WAIT_CANCELED = b"\0", b"\1"
_READY, _NOT_READY = b"\0", b"\1"
_MAGIC = 0x3C85F7CE
_U32, _U64, _I64 = struct.Struct("=I"), struct.Struct("=Q"), struct.Struct("=q")


def _raise_close() -> int:
    raise Close


def _vector(value: bytes) -> bytes:
    return _U64.pack(len(value)) + value


class Client:
    """A connection of one of the user's own processes, which speaks the protocol of torch's store.

    Each word begins with a byte, its place in torch's QueryType; texts and values have their length before them.
    """

    def __init__(self, door: "Door", connection: socket.socket) -> None:
        self.door, self.store, self.socket = door, door.store, connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = self.unsent = b""
        self.at = 0
        self.awaited: Set[bytes] = set()
        self.is_over = False
        door.watch(connection, self, selectors.EVENT_READ)

    def __call__(self, _: socket.socket, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self.send(b"")
        if events & selectors.EVENT_READ and not self.is_over:
            try:
                chunk = self.socket.recv(_CHUNK_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                chunk = b""
            if not chunk:
                self.close()
                return
            self.unread += chunk
            try:
                self.send(b"".join(self._answers()))
            except (Close, struct.error, OverflowError):
                self.close()

    def _answers(self) -> Iterator[bytes]:
        """Yield the answers to all words that are there whole."""
        while self.unread and not self.is_over:
            code, self.at = self.unread[0], 1
            try:
                if code >= len(self._answered_by):
                    raise Close
                yield self._answered_by[code](self)
            except More:
                return
            self.unread = self.unread[self.at :]

    # The parts of a word.

    def _number(self, form: struct.Struct = _U64) -> int:
        end = self.at + form.size
        if end > len(self.unread):
            raise More
        (value,) = form.unpack_from(self.unread, self.at)
        self.at = end
        return int(value)

    def _text(self) -> bytes:
        length = self._number()
        if length > _LONGEST_VALUE_BYTES:
            raise Close
        end = self.at + length
        if end > len(self.unread):
            raise More
        text = self.unread[self.at : end]
        self.at = end
        return text

    def _texts(self) -> List[bytes]:
        return [self._text() for _ in range(self._number())]

    # The words, in the order of torch's QueryType.

    def _validate(self) -> bytes:
        return b"" if self._number(_U32) == _MAGIC else bytes(_raise_close())

    def _set(self) -> bytes:
        self.store.set(self._text(), self._text())
        return b""

    def _compare_set(self) -> bytes:
        return _vector(self.store.compare_set(self._text(), self._text(), self._text()))

    def _get(self) -> bytes:
        return _vector(self.store.values.get(self._text(), b""))

    def _add(self) -> bytes:
        return _I64.pack(self.store.add(self._text(), self._number(_I64)))

    def _check(self) -> bytes:
        return _READY if all(map(self.store.has, self._texts())) else _NOT_READY

    def _wait(self) -> bytes:
        return self.store.wait(self, self._texts())

    def _count_keys(self) -> bytes:
        return _I64.pack(len(self.store.values))

    def _delete(self) -> bytes:
        return _I64.pack(self.store.values.pop(self._text(), None) is not None)

    def _append(self) -> bytes:
        key, value = self._text(), self._text()
        self.store.set(key, self.store.values.get(key, b"") + value)
        return b""

    def _get_many(self) -> bytes:
        return b"".join(_vector(self.store.values.get(key, b"")) for key in self._texts())

    def _set_many(self) -> bytes:
        for key, value in [(self._text(), self._text()) for _ in range(self._number())]:
            self.store.set(key, value)
        return b""

    def _cancel_wait(self) -> bytes:
        self.store.forget(self)
        return _WAIT_CANCELED

    def _ping(self) -> bytes:
        return _U32.pack(self._number(_U32))

    def _push(self) -> bytes:
        self.store.push(self._text(), self._text())
        return b""

    def _pop(self) -> bytes:
        return self.store.pop(self._text())

    def _queue_length(self) -> bytes:
        return _I64.pack(len(self.store.queues.get(self._text(), ())))

    def _list_keys(self) -> bytes:
        return _U64.pack(len(self.store.values)) + b"".join(map(_vector, self.store.values))

    def _barrier(self) -> bytes:
        return self.store.meet(self, self._text(), self._number(_I64))

    _answered_by = (
        _validate,
        _set,
        _compare_set,
        _get,
        _add,
        _check,
        _wait,
        _count_keys,
        _delete,
        _append,
        _get_many,
        _set_many,
        _cancel_wait,
        _ping,
        _push,
        _pop,
        _queue_length,
        _list_keys,
        _barrier,
    )

    def send(self, words: bytes) -> None:
        """Say something to the client, now or as soon as it reads."""
        self.unsent += words
        if self.unsent and not self.is_over:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self.close()
                return
        # Who does not read is not heard meanwhile.
        reads = selectors.EVENT_READ * (len(self.unsent) < _MOST_WAITING_BYTES)
        if not self.is_over:
            self.door.watch(self.socket, self, reads | (selectors.EVENT_WRITE * bool(self.unsent)))

    def close(self) -> None:
        """End the connection."""
        self.is_over = True
        self.store.forget(self)
        self.door.watch(self.socket, self, 0)
        self.socket.close()


# Connections.


class Newcomer:
    """A connection of which nothing is known yet: a rank, the door of another host, or a stranger."""

    def __init__(self, door: "Door", connection: socket.socket, peer: Address) -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.mine: Address = _named(connection.getsockname())
        self.since = time.monotonic()
        self.is_asked = self.has_spoken = False
        door.watch(connection, self, selectors.EVENT_READ)

    def __call__(self, _: socket.socket, __: int) -> None:
        """Look at the first words, which stay where they are: a rank's are for the store."""
        try:
            words = self.socket.recv(len(_HELLO), socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            words = b""
        if not words:
            self.door.forget(self)
        elif words == _HELLO:
            self.door.forget(self, keep=True)
            NodeDoor(self.door, self.socket, self.peer)
        elif not _HELLO.startswith(words):
            self.has_spoken = True
            self.door.silent.pop(self, None)
            self.door.watch(self.socket, self, 0)
            self.ask()

    def ask(self) -> None:
        """Ask who owns the other end, where somebody can be asked."""
        if self.peer[0] in self.door.own:
            self.learn(find_owner(self.peer, self.mine))
        elif self.peer[0] in self.door.nodes:
            self.is_asked = True
            self.door.nodes[self.peer[0]].ask(self)
        elif self.door.all_have_come():
            self.door.refuse(self, _OF_NO_HOST)

    def learn(self, owner: Owner) -> None:
        """Let the user's own in; close what is anybody else's, and say so."""
        uid, name = owner
        if uid == os.getuid():
            self.door.forget(self, keep=True)
            Client(self.door, self.socket)(self.socket, selectors.EVENT_READ)  # its first words are there
        else:
            self.door.refuse(self, name or "nobody who is still there")


class NodeDoor:
    """The connection to the door of another host of the job, once it has shown that it knows the secret."""

    def __init__(self, door: "Door", connection: socket.socket, peer: Address) -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.rest = self.theirs = b""
        self.nonce = os.urandom(_NONCE_BYTES)
        self.asked: Deque[Newcomer] = collections.deque()
        self.is_known = False
        self.addresses: List[str] = []
        door.watch(connection, self, selectors.EVENT_READ)

    def __call__(self, _: socket.socket, __: int) -> None:
        try:
            chunk = self.socket.recv(_CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        self.rest += chunk
        *lines, self.rest = self.rest.split(b"\n")
        try:
            makes_sense = all(self._read(line) for line in lines)
        except (ValueError, TypeError):  # whatever a stranger writes
            makes_sense = False
        if not chunk or len(self.rest) > _CHUNK_BYTES or not makes_sense:
            self._close()

    def _read(self, line: bytes) -> bool:
        """Read a line; return whether it makes sense."""
        words = line.split(b" ")
        if words[0] == _HELLO and len(words) == 2 and not self.is_known:
            self.theirs = words[1]
            proof = prove(self.door.key, b"door", self.theirs, self.nonce.hex().encode())
            self._send(self.nonce.hex(), proof.hex())
            return True
        if words[0] == b"node" and len(words) == 3 and not self.is_known:
            if not is_proven(words[2], self.door.key, b"node", self.nonce.hex().encode(), self.theirs, words[1]):
                self.door.refuse_door(self.peer)
                return False
            self.is_known = True
            self.addresses = [self.peer[0], *words[1].decode().split(",")]
            self.door.welcome(self)
            return True
        if words[0] == b"owner" and self.is_known and self.asked and len(words) == 3:
            uid = int(words[1])
            self.asked.popleft().learn((None if uid < 0 else uid, bytes.fromhex(words[2].decode()).decode()))
            return True
        return False

    def ask(self, newcomer: Newcomer) -> None:
        """Ask that host who owns the other end of a connection; answers come in the order of the questions."""
        self.asked.append(newcomer)
        self._send("who", *map(str, (*newcomer.peer, *newcomer.mine)))

    def _send(self, *words: str) -> None:
        with contextlib.suppress(OSError):
            self.socket.setblocking(True)
            self.socket.sendall(" ".join(words).encode() + b"\n")
            self.socket.setblocking(False)

    def _close(self) -> None:
        self.door.watch(self.socket, self, 0)
        self.socket.close()
        self.door.part(self)
        for newcomer in self.asked:
            self.door.refuse(newcomer, "a user of a host whose door has ended")


class Door:
    """The door on rank 0's host."""

    def __init__(self, key: bytes, port: int, nodes: int) -> None:
        self.key, self.node_count = key, nodes
        self.own = frozenset(own_addresses())
        self.nodes: Dict[str, NodeDoor] = {}
        self.doors: List[NodeDoor] = []
        self.newcomers: Dict[Newcomer, None] = {}
        self.silent: Dict[Newcomer, None] = {}
        self.most_silent = _MOST_SILENT + _MOST_SILENT_PER_NODE * nodes
        self.told: Dict[Tuple[str, str], float] = {}
        self.store = Store()
        self.looked = time.monotonic()
        self.selector = selectors.DefaultSelector()
        family = socket.AF_INET6 if os.path.exists("/proc/net/if_inet6") else socket.AF_INET  # of IPv6 takes both
        self.listener = _listen(family, "", port)
        self.listener.setblocking(False)
        self.watch(self.listener, self._accept, selectors.EVENT_READ)

    def watch(self, end: socket.socket, reader: Any, events: int) -> None:
        """Wait for these events of a socket from now on."""
        key = self.selector.get_map().get(end)
        if not events:
            if key is not None:
                self.selector.unregister(end)
        elif key is None:
            self.selector.register(end, events, reader)
        elif key.events != events or key.data is not reader:
            self.selector.modify(end, events, reader)

    def run(self, ended: int) -> None:
        """Serve until a descriptor can be read."""
        self.selector.register(ended, selectors.EVENT_READ)
        while True:
            for key, events in self.selector.select(1.0):
                if key.fd == ended:
                    return
                end: Any = key.fileobj
                if end.fileno() >= 0:  # not closed by what happened a moment ago
                    key.data(end, events)
            self._close_silent()

    def _accept(self, listener: socket.socket, _: int) -> None:
        with contextlib.suppress(OSError):
            for _ in range(_MOST_AT_ONCE):
                connection, peer = listener.accept()
                connection.setblocking(False)
                newcomer = Newcomer(self, connection, _named(peer))
                self.newcomers[newcomer] = self.silent[newcomer] = None
                if self.all_have_come() and not self.is_of_the_job(newcomer.peer[0]):
                    self.refuse(newcomer, _OF_NO_HOST)
                    continue
                newcomer(connection, selectors.EVENT_READ)
                if len(self.silent) > self.most_silent:
                    self.refuse(next(iter(self.silent)), "a user who opens many connections and says nothing")

    def is_of_the_job(self, address: str) -> bool:
        """Return whether an address is one of this host, or of a host whose door has come."""
        return address in self.own or address in self.nodes

    def _close_silent(self) -> None:
        now = time.monotonic()
        if now - self.looked < 1.0:
            return
        self.looked = now
        for newcomer in list(self.newcomers):
            if now - newcomer.since > (_UNKNOWN_S if newcomer.has_spoken else _SILENT_S):
                self.refuse(newcomer, "a user who says nothing, or of a host that has no door")

    def all_have_come(self) -> bool:
        """Return whether each other host of the job has a door."""
        return len(self.doors) >= self.node_count - 1

    def welcome(self, node: NodeDoor) -> None:
        """Take a door of another host, and ask it about the connections that have waited for it."""
        self.doors.append(node)
        self.nodes.update(dict.fromkeys(node.addresses, node))
        for newcomer in list(self.newcomers):
            if (
                newcomer.has_spoken
                and not newcomer.is_asked
                and (newcomer.peer[0] in node.addresses or self.all_have_come())
            ):
                newcomer.ask()

    def part(self, node: NodeDoor) -> None:
        """Forget the door of another host, which has ended."""
        if node in self.doors:
            self.doors.remove(node)
        self.nodes = {address: other for address, other in self.nodes.items() if other is not node}

    def forget(self, newcomer: Newcomer, *, keep: bool = False) -> None:
        """Wait no more for a newcomer; its connection is closed unless `keep`."""
        self.newcomers.pop(newcomer, None)
        self.silent.pop(newcomer, None)
        self.watch(newcomer.socket, newcomer, 0)
        if not keep:
            newcomer.socket.close()

    def refuse(self, newcomer: Newcomer, who: str) -> None:
        """Close a stranger's connection, and say whose it was."""
        if newcomer.socket.fileno() >= 0:
            self._tell(newcomer.peer[0], who)
            self.forget(newcomer)

    def refuse_door(self, peer: Address) -> None:
        """Say that somebody took part as a door without the secret."""
        self._tell(peer[0], "somebody who claims to be a door of this job and does not know its secret")

    def _tell(self, host: str, who: str) -> None:
        now = time.monotonic()
        if now - self.told.get((host, who), -_TELL_AGAIN_S) >= _TELL_AGAIN_S:
            self.told[host, who] = now
            say(f"refused a connection to the ranks' store from {host}: {who}")


def _named(address: Any) -> Address:
    return plain(str(address[0])), int(address[1])


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((address, port))
    listener.listen(4096)
    return listener


# The door of another host.


def answer_door(key: bytes, address: str, port: int, is_over: Callable[[], bool]) -> None:
    """Tell the door of rank 0's host who owns connections from this one, until it ends."""
    connection = _reach(address, port, is_over)
    if connection is None:
        return
    mine = os.urandom(_NONCE_BYTES).hex().encode()
    with connection, connection.makefile("rb") as lines:
        connection.sendall(_HELLO + b" " + mine + b"\n")
        theirs, proof = [*lines.readline().split(), b"", b""][:2]
        if not is_proven(proof, key, b"door", mine, theirs):
            say(f"what listens at {address}:{port} does not know the secret of this job")
            return
        facts = ",".join(own_addresses()).encode()
        proof = prove(key, b"node", theirs, mine, facts).hex().encode()
        connection.sendall(b" ".join([b"node", facts, proof]) + b"\n")
        for line in lines:
            words = line.decode().split()
            uid, name = find_owner((words[1], int(words[2])), (words[3], int(words[4])))
            connection.sendall(f"owner {-1 if uid is None else uid} {name.encode().hex()}\n".encode())


def _reach(address: str, port: int, is_over: Callable[[], bool]) -> Optional[socket.socket]:
    """Return a connection to the door of rank 0's host, as soon as it is there."""
    while not is_over():
        try:
            return socket.create_connection((address, port), timeout=None)
        except OSError:
            time.sleep(_RETRY_S)
    return None


def open_end(pid: int) -> int:
    """Return a descriptor that can be read once a process has ended; the process is of this user."""
    pidfd_open = getattr(os, "pidfd_open", None)  # of Python 3.9 and Linux 5.3
    with contextlib.suppress(OSError):
        if pidfd_open is not None:
            return int(pidfd_open(pid))
    # Older ones: a thread looks, and the pipe that it closes can be read then.
    import threading

    reader, writer = os.pipe()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while _state_of(pid) != "Z":
                time.sleep(_LOOK_S)
        os.close(writer)

    threading.Thread(target=wait, daemon=True).start()
    return reader


def _state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def end_rank(pid: int) -> None:
    """Tell the first rank to end: its shell waits for it, and passes no signal on."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        for child in (*children.read().split(), str(pid)):
            if int(child) != os.getpid():
                os.kill(int(child), signal.SIGTERM)


def main(role: str, port: int, rank_pid: int, place: str) -> int:
    """Be the door of this host until its first rank ends; return the exit status."""
    key = bytes.fromhex(os.environ.pop(_KEY))
    ended = open_end(rank_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if role == "store":
        return _keep_store(key, port, int(place), rank_pid, ended)
    # The connection ends with the door of rank 0's host, and so does this process.
    with contextlib.suppress(OSError, ValueError, IndexError):
        answer_door(key, place, port, lambda: bool(select.select([ended], [], [], 0)[0]))
    return 0


def _keep_store(key: bytes, port: int, nodes: int, rank_pid: int, ended: int) -> int:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one for each rank
    try:
        door = Door(key, port, nodes)
    except OSError as error:
        say(f"port {port} cannot be opened: {error.strerror}")
        end_rank(rank_pid)
        return 1
    door.run(ended)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
