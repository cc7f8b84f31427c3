"""The store where the ranks of a closed job meet: what torch's TCPStore keeps, and the protocol of its clients.

A piece of the door (`door.py`), which says who may speak to the store.
"""

import _socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Set

    Watch = Callable[[_socket.socket, Callable[[int], None], int], None]
    """Waits for events of a socket from now on."""

# As epoll numbers them.
EVENT_READ, EVENT_WRITE = 1, 4
_CHUNK_BYTES = 1 << 18
# More than this waits for a slow reader: the reader's own words are not read meanwhile.
_MOST_WAITING_BYTES = 1 << 20
_LONGEST_VALUE_BYTES = 1 << 30


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
        self.queues: Dict[bytes, List[bytes]] = {}
        self.waiting: Dict[bytes, Dict[Client, None]] = {}
        self.barriers: Dict[bytes, Dict[Client, None]] = {}

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
        held = self.values.get(key, b"0")
        if not held.isdigit():
            import re

            number = re.match(rb"\s*[+-]?[0-9]+", held)
            held = number.group() if number is not None else bytes(_raise_close())
        total = int(held) + amount
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
        self.queues.setdefault(key, []).append(value)
        waiting = self.waiting.get(key, {})
        for client in list(waiting):
            del waiting[client]
            client.awaited.discard(key)
            if not client.awaited:
                client.send(_STOP_WAITING)
                return

    def pop(self, key: bytes) -> bytes:
        """Return how many a queue holds, and the first of them, which the queue loses."""
        queue = self.queues.get(key, [])
        return _I64.pack(len(queue)) + (_vector(queue.pop(0)) if queue else b"")

    def wait(self, client: "Client", keys: "List[bytes]") -> bytes:
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

    def __init__(self, store: Store, connection: _socket.socket, watch: "Watch") -> None:
        self.store, self.socket, self.watch = store, connection, watch
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self.unread = self.unsent = b""
        self.at = 0
        self.awaited: Set[bytes] = set()
        self.is_over = False
        watch(connection, self, EVENT_READ)

    def __call__(self, events: int) -> None:
        if events & EVENT_WRITE:
            self.send(b"")
        if events & EVENT_READ and not self.is_over:
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

    def _answers(self) -> "Iterator[bytes]":
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

    def _take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.unread):
            raise More
        return self.unread[self.at - count : self.at]

    def _number(self, form: struct.Struct = _U64) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _text(self) -> bytes:
        length = self._number()
        if length > _LONGEST_VALUE_BYTES:
            raise Close
        return self._take(length)

    def _texts(self) -> "List[bytes]":
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
        reads = EVENT_READ * (len(self.unsent) < _MOST_WAITING_BYTES)
        if not self.is_over:
            self.watch(self.socket, self, reads | (EVENT_WRITE * bool(self.unsent)))

    def close(self) -> None:
        """End the connection."""
        self.is_over = True
        self.store.forget(self)
        self.watch(self.socket, self, 0)
        self.socket.close()
