"""The door of a closed job: only processes of the job's user, on the job's nodes, reach the store of its ranks.

torch's store listens on all interfaces and asks nobody who he is. Here the door of rank 0's host listens where the
ranks were told to meet, and is the store: it speaks the protocol of torch's clients. For each connection, it first asks
who owns the other end: the kernel of this host, if the connection comes from here, else the door of that host, which
has shown that it knows the job's secret. So the ranks need not know of it, and the door needs no torch. Started as
`python -c TEXT store PORT RANK_PID NODES` on rank 0's host and `node PORT RANK_PID ADDRESS` on the others; the secret
stands in the environment, which other users cannot read. The job carries it as one text, put together from its pieces
(`door_owner.py`, `door_store.py`, this one), which share their names. A host's own Python runs it, 3.6 or later; few
imports: each costs the start of every job.
"""

import _socket
import os
import select
import struct
import sys
import time

from .door_owner import find_owner, own_addresses, plain
from .door_store import EVENT_READ, Client, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

    from .door_owner import Address, Owner

_KEY = "MUSTER_DOOR_KEY"
_HELLO = b"muster-1"
_NONCE_BYTES = 16
_LONGEST_WORDS_BYTES = 1 << 16
# A connection that says nothing, or whose host has no door yet, is closed after so long.
_SILENT_S = 20.0
_UNKNOWN_S = 60.0
# So many that say nothing may wait at a time; the oldest one goes. 10,000 ranks may start at once.
_MOST_SILENT, _MOST_SILENT_PER_NODE = 1024, 64
_MOST_AT_ONCE = 256
_RETRY_S = 0.05
_LOOK_S = 0.1
_OF_NO_HOST = "a user of a host that is not the job's"


def say(text: str) -> None:
    """Write a line for the job's log."""
    try:
        os.write(2, f"muster: door: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def prove(key: bytes, *parts: bytes) -> bytes:
    """Return what only a process that knows the key can say of these parts."""
    import hmac

    return hmac.new(key, b"".join(struct.pack("!I", len(part)) + part for part in parts), "sha256").digest()


def is_proven(claim: bytes, key: bytes, *parts: bytes) -> bool:
    """Return whether a claim, in hexadecimal digits, is what the key proves of these parts."""
    import hmac

    return hmac.compare_digest(prove(key, *parts).hex().encode(), claim)


class Newcomer:
    """A connection of which nothing is known yet: a rank, the door of another host, or a stranger."""

    def __init__(self, door: "Door", connection: _socket.socket, peer: "Address") -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.mine: Address = _named(connection.getsockname())
        self.since = time.monotonic()
        self.is_asked = self.has_spoken = False
        door.watch(connection, self, EVENT_READ)

    def __call__(self, _: int) -> None:
        """Look at the first words, which stay where they are: a rank's are for the store."""
        try:
            words = self.socket.recv(len(_HELLO), _socket.MSG_PEEK)
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

    def learn(self, owner: "Owner") -> None:
        """Let the user's own in; close what is anybody else's, and say so."""
        uid, name = owner
        if uid == os.getuid():
            self.door.forget(self, keep=True)
            client = Client(self.door.store, self.socket, self.door.watch)
            client(EVENT_READ)  # its first words are there
        else:
            self.door.refuse(self, name or "nobody who is still there")


class NodeDoor:
    """The connection to the door of another host of the job, once it has shown that it knows the secret."""

    def __init__(self, door: "Door", connection: _socket.socket, peer: "Address") -> None:
        self.door, self.socket, self.peer = door, connection, peer
        self.rest = self.theirs = b""
        self.nonce = os.urandom(_NONCE_BYTES)
        self.asked: List[Newcomer] = []
        self.is_known = False
        self.addresses: List[str] = []
        door.watch(connection, self, EVENT_READ)

    def __call__(self, _: int) -> None:
        try:
            chunk = self.socket.recv(_LONGEST_WORDS_BYTES)
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
        if not chunk or len(self.rest) > _LONGEST_WORDS_BYTES or not makes_sense:
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
                self.door.tell(self.peer, "somebody who claims to be a door of this job and does not know its secret")
                return False
            self.is_known = True
            self.addresses = [self.peer[0], *words[1].decode().split(",")]
            self.door.welcome(self)
            return True
        if words[0] == b"owner" and self.is_known and self.asked and len(words) == 3:
            uid = int(words[1])
            self.asked.pop(0).learn((None if uid < 0 else uid, bytes.fromhex(words[2].decode()).decode()))
            return True
        return False

    def ask(self, newcomer: Newcomer) -> None:
        """Ask that host who owns the other end of a connection; answers come in the order of the questions."""
        self.asked.append(newcomer)
        self._send("who", *map(str, (*newcomer.peer, *newcomer.mine)))

    def _send(self, *words: str) -> None:
        try:
            self.socket.setblocking(True)
            self.socket.sendall(" ".join(words).encode() + b"\n")
            self.socket.setblocking(False)
        except OSError:
            pass

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
        self.doors: Set[NodeDoor] = set()
        self.newcomers: Dict[Newcomer, None] = {}
        self.silent: Dict[Newcomer, None] = {}
        self.most_silent = _MOST_SILENT + _MOST_SILENT_PER_NODE * nodes
        self.told: Set[Tuple[str, str]] = set()
        self.store = Store()
        self.looked = time.monotonic()
        self.poll = select.epoll()
        self.watched: Dict[int, Tuple[Callable[[int], None], int]] = {}
        family = _socket.AF_INET6 if os.path.exists("/proc/net/if_inet6") else _socket.AF_INET  # of IPv6 takes both
        self.listener = _listen(family, port)
        self.listener.setblocking(False)
        self.watch(self.listener, self._accept, EVENT_READ)

    def watch(self, end: _socket.socket, reader: "Callable[[int], None]", events: int) -> None:
        """Wait for these events of a socket from now on."""
        number = end.fileno()
        before = self.watched.pop(number, None)
        if events:
            self.watched[number] = reader, events
            if before is None:
                self.poll.register(number, events)
            elif before[1] != events:
                self.poll.modify(number, events)
        elif before is not None:
            self.poll.unregister(number)

    def run(self, is_over: "Callable[[], bool]") -> None:
        """Serve until the first rank has ended."""
        while not is_over():
            for number, events in self.poll.poll(_LOOK_S):
                if number in self.watched:  # not closed by what happened a moment ago
                    reader, wanted = self.watched[number]
                    # An error is heard by who reads or writes.
                    reader(wanted & events or wanted)
            self._close_silent()

    def _accept(self, _: int) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                number, peer = self.listener._accept()  # type: ignore[attr-defined]
                connection = _socket.socket(self.listener.family, _socket.SOCK_STREAM, 0, number)
                connection.setblocking(False)
                newcomer = Newcomer(self, connection, _named(peer))
            except OSError:
                return
            self.newcomers[newcomer] = self.silent[newcomer] = None
            host = newcomer.peer[0]
            if self.all_have_come() and host not in self.own and host not in self.nodes:
                self.refuse(newcomer, _OF_NO_HOST)
                continue
            newcomer(EVENT_READ)
            if len(self.silent) > self.most_silent:
                self.refuse(next(iter(self.silent)), "a user who opens many connections and says nothing")

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
        self.doors.add(node)
        self.nodes.update(dict.fromkeys(node.addresses, node))
        for newcomer in list(self.newcomers):
            if newcomer.has_spoken and not newcomer.is_asked:
                newcomer.ask()

    def part(self, node: NodeDoor) -> None:
        """Forget the door of another host, which has ended."""
        self.doors.discard(node)
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
            self.tell(newcomer.peer, who)
            self.forget(newcomer)

    def tell(self, peer: "Address", who: str) -> None:
        """Say who was refused, once: 10,000 connections do not fill the log."""
        if (peer[0], who) not in self.told:
            self.told.add((peer[0], who))
            say(f"refused a connection to the ranks' store from {peer[0]}: {who}")


def _named(address: "Any") -> "Address":
    return plain(str(address[0])), int(address[1])


def _listen(family: int, port: int) -> _socket.socket:
    listener = _socket.socket(family, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    if family == _socket.AF_INET6:
        listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 0)
    listener.bind(("", port))
    listener.listen(4096)
    return listener


# The door of another host.


def answer_door(key: bytes, address: str, port: int, is_over: "Callable[[], bool]") -> None:
    """Tell the door of rank 0's host who owns connections from this one, until it ends."""
    number = _reach(address, port, is_over)
    if number is None:
        return
    mine = os.urandom(_NONCE_BYTES).hex().encode()
    lines = _read_lines(number, is_over)
    os.write(number, _HELLO + b" " + mine + b"\n")
    theirs, proof = [*next(lines, b"").split(), b"", b""][:2]
    if not is_proven(proof, key, b"door", mine, theirs):
        say(f"what listens at {address}:{port} does not know the secret of this job")
        return
    facts = ",".join(own_addresses()).encode()
    proof = prove(key, b"node", theirs, mine, facts).hex().encode()
    os.write(number, b" ".join([b"node", facts, proof]) + b"\n")
    for line in lines:
        words = line.decode().split()
        uid, name = find_owner((words[1], int(words[2])), (words[3], int(words[4])))
        os.write(number, f"owner {-1 if uid is None else uid} {name.encode().hex()}\n".encode())


def _read_lines(number: int, is_over: "Callable[[], bool]") -> "Iterator[bytes]":
    """Yield the lines of a connection until it ends, or the rank has."""
    watch = select.poll()
    watch.register(number, select.POLLIN)
    unread = b""
    while not is_over():
        if not watch.poll(1000):
            continue
        piece = os.read(number, 4096)
        if not piece:
            return
        *lines, unread = (unread + piece).split(b"\n")
        yield from lines


def _reach(address: str, port: int, is_over: "Callable[[], bool]") -> "Optional[int]":
    """Return the number of a connection to the door of rank 0's host, as soon as it is there."""
    while not is_over():
        try:
            # As bytes: a text would load the tables of international names.
            places = _socket.getaddrinfo(address.encode(), port, 0, _socket.SOCK_STREAM)
        except OSError:
            places = []
        for family, kind, protocol, _, place in places:
            connection = _socket.socket(family, kind, protocol)
            try:
                connection.connect(place)
                return connection.detach()
            except OSError:
                connection.close()
        time.sleep(_RETRY_S)
    return None


def end_rank(pid: int) -> None:
    """Tell the first rank to end: its shell waits for it, and passes no signal on."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            for child in (*children.read().split(), str(pid)):
                if int(child) != os.getpid():
                    os.kill(int(child), 15)  # SIGTERM
    except OSError:
        pass


def main(role: str, port: int, rank_pid: int, place: str) -> int:
    """Be the door of this host until its first rank ends; return the exit status."""
    key = bytes.fromhex(os.environ.pop(_KEY))

    def is_over() -> bool:
        return os.getppid() != rank_pid  # the rank's shell has started the door

    if role == "node":
        answer_door(key, place, port, is_over)
        return 0
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one for each rank
    try:
        door = Door(key, port, int(place))
    except OSError as error:
        say(f"port {port} cannot be opened: {error.strerror}")
        end_rank(rank_pid)
        return 1
    door.run(is_over)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
