"""The door of a closed job: only processes of the job's user, on the job's nodes, reach the store of its ranks.

torch's store listens on all interfaces and asks nobody who he is. Here the store listens on the loopback of rank 0's
host alone and takes connections of the door alone; the door listens where the ranks were told to meet. For each
connection, the door asks who owns its other end: the kernel of this host, if the connection comes from here, else the
door of that host, which has shown that it knows the job's secret. So the ranks need not know of it. Started as
`python -c TEXT store PORT RANK_PID NODES` on rank 0's host and `node PORT RANK_PID ADDRESS` on the others; the secret
stands in the environment, which other users cannot read. One long file, since the job carries it as a text.
"""

import contextlib
import hashlib
import hmac
import json
import os
import pwd
import resource
import select
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

_KEY = "MUSTER_DOOR_KEY"
_HELLO = b"muster-1"
_NONCE_BYTES = 16
_CHUNK_BYTES = 1 << 16
# More than this waits for a slow reader: the other end is not read meanwhile.
_MOST_WAITING_BYTES = 1 << 20
# A connection that says nothing, or whose host has no door yet, is closed after so long.
_SILENT_S = 20.0
_UNKNOWN_S = 60.0
# So many of them may wait at a time; the oldest one goes.
_MOST_UNKNOWN = 1024
_RETRY_S = 0.05
_LOOK_S = 0.05
_READY = "ready"
# One line for each stranger and this long: 10,000 connections do not fill the log.
_TELL_AGAIN_S = 60.0
_OF_NO_HOST = "a user of a host that is not the job's"
_SO_ATTACH_FILTER = 26
_ESTABLISHED = "01"
_LAST_PORTS = 64
# torch's store connects to itself, by the port at which it listens: there the door stands in front of it too.
_OWN_SIDE = "127.0.0.2"

Address = Tuple[str, int]


class Owner(NamedTuple):
    """Who owns one end of a connection."""

    uid: Optional[int]
    """None: this host has no such connection."""

    name: str


def say(text: str) -> None:
    """Write a line for the job's log."""
    with contextlib.suppress(OSError):
        os.write(2, f"muster: door: {text}\n".encode("utf-8", "backslashreplace"))


def prove(key: bytes, *parts: bytes) -> bytes:
    """Return what only a process that knows the key can say of these parts."""
    return hmac.new(key, b"".join(struct.pack("!I", len(part)) + part for part in parts), hashlib.sha256).digest()


# Who owns a connection.


def plain(address: str) -> str:
    """Return an address as IPv4 where the kernel shows it in IPv6 form; a zone is left out."""
    address = address.partition("%")[0]
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def find_owner(mine: Address, theirs: Address) -> Owner:
    """Return who owns the end `mine` of a connection to `theirs`, by this host's kernel."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), Path(path).open(encoding="ascii") as table:
            wanted = f":{mine[1]:04X} "
            for line in table:
                if wanted in line:
                    fields = line.split()
                    # Once nobody holds a connection any more, the kernel shows it as root's, whoever's it was.
                    is_held = fields[3] == _ESTABLISHED
                    if is_held and _address_of(fields[1]) == mine and _address_of(fields[2]) == theirs:
                        uid = int(fields[7])
                        return Owner(uid, _name_of(uid))
    return Owner(None, "")


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
    with contextlib.suppress(OSError), Path("/proc/net/fib_trie").open(encoding="ascii") as table:
        before = ""
        for line in table:
            if "/32 host LOCAL" in line:
                addresses.add(before)
            before = line.split()[-1] if line.strip().startswith("|--") else before
    with contextlib.suppress(OSError), Path("/proc/net/if_inet6").open(encoding="ascii") as table:
        for line in table:
            addresses.add(plain(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))))
    return sorted(addresses)


# The store behind the door.


class ShutSocket:
    """A listening socket on loopback that takes connections of this process alone.

    Another user of this host could connect to it too. So a filter of the kernel drops what does not come from one of
    our own ports, which nobody else can have while we hold them.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.bind(("127.0.0.1", 0))
        self._ports: List[int] = []
        self._let_in()
        self.socket.listen(4096)
        self.address = self.socket.getsockname()

    def connect(self) -> socket.socket:
        """Return a connection to it."""
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.bind(("127.0.0.1", 0))
        self._ports = [*self._ports[1 - _LAST_PORTS :], client.getsockname()[1]]
        self._let_in()
        client.connect(self.address)
        return client

    def close(self, client: socket.socket) -> None:
        """Close a connection; its port, which anybody may have then, is let in no more."""
        port = client.getsockname()[1]
        if port in self._ports:
            self._ports.remove(port)
            self._let_in()
        client.close()

    def _let_in(self) -> None:
        """Let the last of our ports in. The packets of one that is in already are held against its own filter."""
        ports = self._ports
        # A packet begins with the TCP header, so its first two bytes are the port that it comes from.
        program = [struct.pack("=HBBI", 0x28, 0, 0, 0)]
        program += [struct.pack("=HBBI", 0x15, len(ports) - index, 0, port) for index, port in enumerate(ports)]
        program += [struct.pack("=HBBI", 0x06, 0, 0, 0), struct.pack("=HBBI", 0x06, 0, 0, 0xFFFFFFFF)]
        import ctypes

        text = ctypes.create_string_buffer(b"".join(program))
        value = struct.pack("HL", len(program), ctypes.addressof(text))
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, value)


def start_store(listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Start torch's store over a listening socket, in a thread; `ready` gets _READY, or why there is none."""

    def start() -> None:
        try:
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns of each loopback address without a name
            from datetime import timedelta

            from torch.distributed import TCPStore

            port = listener.getsockname()[1]
            words: Dict[str, Any] = {"is_master": True, "wait_for_workers": False, "timeout": timedelta(seconds=300)}
            _kept.append(TCPStore(_OWN_SIDE, port, master_listen_fd=os.dup(listener.fileno()), **words))
        except BaseException as error:  # noqa: BLE001  # whatever torch raises, the ranks must not wait for it
            ready(f"{type(error).__name__}: {error}")
        else:
            ready(_READY)

    threading.Thread(target=start, daemon=True).start()


_kept: List[Any] = []  # torch ends the store with the object


# Connections.


class Pipe:
    """One direction of a connection: what is read here goes out there."""

    def __init__(self, reader: socket.socket, writer: socket.socket) -> None:
        self.reader, self.writer = reader, writer
        self.waiting = bytearray()
        self.is_over = False

    def read(self) -> None:
        """Read what is there, and pass on as much as goes."""
        try:
            chunk = self.reader.recv(_CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        is_idle = not self.waiting
        self.waiting += chunk
        if not chunk:
            self.is_over = True
        elif is_idle:
            self.write()

    def write(self) -> None:
        """Pass on what waits."""
        try:
            del self.waiting[: self.writer.send(self.waiting)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.is_over = True
            self.waiting.clear()


class Passage:
    """A connection of one of the ranks, and ours to the store for it."""

    def __init__(self, door: "Door", outside: socket.socket) -> None:
        self.door, self.outside, self.inside = door, outside, door.shut.connect()
        self.inside.setblocking(False)
        for end in (self.outside, self.inside):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inward, self.outward = Pipe(outside, self.inside), Pipe(self.inside, outside)
        self._watch()

    def __call__(self, end: socket.socket, events: int) -> None:
        here, there = (self.inward, self.outward) if end is self.outside else (self.outward, self.inward)
        if events & selectors.EVENT_WRITE:
            there.write()
        if events & selectors.EVENT_READ:
            here.read()
        if any(pipe.is_over and not pipe.waiting for pipe in (here, there)):
            self.close()
        else:
            self._watch()

    def _watch(self) -> None:
        """Wait for what can be done at either end."""
        for end, here, there in (
            (self.outside, self.inward, self.outward),
            (self.inside, self.outward, self.inward),
        ):
            reads = not here.is_over and len(here.waiting) < _MOST_WAITING_BYTES
            self.door.watch(end, self, (selectors.EVENT_READ * reads) | (selectors.EVENT_WRITE * bool(there.waiting)))

    def close(self) -> None:
        """Close both ends."""
        for end in (self.outside, self.inside):
            self.door.watch(end, self, 0)
        self.outside.close()
        self.door.shut.close(self.inside)


class Newcomer:
    """A connection of which nothing is known yet: a rank, the door of another host, or a stranger."""

    def __init__(self, door: "Door", connection: socket.socket, peer: Address) -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.mine: Address = _named(connection.getsockname())
        self.since = time.monotonic()
        self.is_asked = False
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
        if owner.uid == os.getuid():
            self.door.forget(self, keep=True)
            self.door.let_in(self.socket, waits=self.mine[0] != _OWN_SIDE)
        else:
            self.door.refuse(self, owner.name or "nobody who is still there")


class NodeDoor:
    """The connection to the door of another host of the job, once it has shown that it knows the secret."""

    def __init__(self, door: "Door", connection: socket.socket, peer: Address) -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.rest = self.theirs = b""
        self.nonce = os.urandom(_NONCE_BYTES)
        self.asked: List[Newcomer] = []
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
            expected = prove(self.door.key, b"node", self.nonce.hex().encode(), self.theirs, words[1]).hex()
            if not hmac.compare_digest(expected.encode(), words[2]):
                self.door.refuse_door(self.peer)
                return False
            self.is_known = True
            self.addresses = [self.peer[0], *json.loads(bytes.fromhex(words[1].decode()))]
            self.door.welcome(self)
            return True
        if words[0] == b"owner" and self.is_known and self.asked and len(words) == 3:
            uid = int(words[1])
            self.asked.pop(0).learn(Owner(None if uid < 0 else uid, bytes.fromhex(words[2].decode()).decode()))
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
        self.newcomers: Dict[int, Newcomer] = {}
        self.waiting: List[socket.socket] = []
        self.is_ready = False
        self.told: Dict[Tuple[str, str], float] = {}
        self.shut = ShutSocket()
        self.selector = selectors.DefaultSelector()
        family = socket.AF_INET6 if Path("/proc/net/if_inet6").exists() else socket.AF_INET  # of IPv6 takes both
        self.listeners = [_listen(family, "", port), _listen(socket.AF_INET, _OWN_SIDE, self.shut.address[1])]
        for listener in self.listeners:
            listener.setblocking(False)
            self.watch(listener, self._accept, selectors.EVENT_READ)

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
            connection, peer = listener.accept()
            connection.setblocking(False)
            newcomer = Newcomer(self, connection, _named(peer))
            self.newcomers[id(newcomer)] = newcomer
            if self.all_have_come() and not self.is_of_the_job(newcomer.peer[0]):
                self.refuse(newcomer, _OF_NO_HOST)
            elif len(self.newcomers) > _MOST_UNKNOWN:
                silent = (each for each in self.newcomers.values() if not each.is_asked)
                self.refuse(next(silent, newcomer), "a user who opens many connections and says nothing")

    def is_of_the_job(self, address: str) -> bool:
        """Return whether an address is one of this host, or of a host whose door has come."""
        return address in self.own or address in self.nodes

    def _close_silent(self) -> None:
        now = time.monotonic()
        for newcomer in list(self.newcomers.values()):
            if now - newcomer.since > (_UNKNOWN_S if newcomer.is_asked or self._knows_words(newcomer) else _SILENT_S):
                self.refuse(newcomer, "a user who says nothing, or of a host that has no door")

    def _knows_words(self, newcomer: Newcomer) -> bool:
        return newcomer.socket.fileno() >= 0 and self.selector.get_map().get(newcomer.socket) is None

    def all_have_come(self) -> bool:
        """Return whether each other host of the job has a door."""
        return len(self.doors) >= self.node_count - 1

    def welcome(self, node: NodeDoor) -> None:
        """Take a door of another host, and ask it about the connections that have waited for it."""
        self.doors.append(node)
        self.nodes.update(dict.fromkeys(node.addresses, node))
        for newcomer in list(self.newcomers.values()):
            if self._knows_words(newcomer) and not newcomer.is_asked:
                newcomer.ask()

    def part(self, node: NodeDoor) -> None:
        """Forget the door of another host, which has ended."""
        if node in self.doors:
            self.doors.remove(node)
        self.nodes = {address: each for address, each in self.nodes.items() if each is not node}

    def forget(self, newcomer: Newcomer, *, keep: bool = False) -> None:
        """Wait no more for a newcomer; its connection is closed unless `keep`."""
        self.newcomers.pop(id(newcomer), None)
        self.watch(newcomer.socket, newcomer, 0)
        if not keep:
            newcomer.socket.close()

    def let_in(self, connection: socket.socket, *, waits: bool = True) -> None:
        """Pass a connection on to the store; if it `waits`, as soon as the store is there."""
        if self.is_ready or not waits:
            Passage(self, connection)
        else:
            self.waiting.append(connection)

    def store_is_ready(self) -> None:
        """Pass on all that have waited for the store."""
        self.is_ready = True
        waiting, self.waiting = self.waiting, []
        for connection in waiting:
            self.let_in(connection)

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
        if not hmac.compare_digest(prove(key, b"door", mine, theirs).hex().encode(), proof):
            say(f"what listens at {address}:{port} does not know the secret of this job")
            return
        facts = json.dumps(own_addresses()).encode().hex().encode()
        proof = prove(key, b"node", theirs, mine, facts).hex().encode()
        connection.sendall(b" ".join([b"node", facts, proof]) + b"\n")
        for line in lines:
            words = line.decode().split()
            owner = find_owner((words[1], int(words[2])), (words[3], int(words[4])))
            uid = -1 if owner.uid is None else owner.uid
            connection.sendall(f"owner {uid} {owner.name.encode().hex()}\n".encode())


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
    reader, writer = os.pipe()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z":
                time.sleep(_LOOK_S)
        os.close(writer)

    threading.Thread(target=wait, daemon=True).start()
    return reader


def end_rank(pid: int) -> None:
    """Tell the first rank to end: its shell waits for it, and passes no signal on."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        for each in (*children.read_text(encoding="ascii").split(), str(pid)):
            if int(each) != os.getpid():
                os.kill(int(each), signal.SIGTERM)


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
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors for each rank
    try:
        door = Door(key, port, nodes)
    except OSError as error:
        say(f"port {port} cannot be opened: {error.strerror}")
        end_rank(rank_pid)
        return 1
    bell, ring = socket.socketpair()

    def hear(_: Any, __: int) -> None:
        trouble = bell.recv(_CHUNK_BYTES).decode()
        if trouble != _READY:
            say(f"the Python of the ranks has no store of torch's that can be closed: {trouble}")
            end_rank(rank_pid)
        door.store_is_ready()

    door.watch(bell, hear, selectors.EVENT_READ)
    start_store(door.shut.socket, lambda text: ring.sendall(text.encode()))
    door.run(ended)
    os._exit(0)  # torch's threads are not waited for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
