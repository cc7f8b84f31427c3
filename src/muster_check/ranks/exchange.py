"""The ranks meet rank 0 where the training will: every rank tells its facts, rank 0 measures the way to it.

Rank 0 listens on MASTER_PORT, so what is in the way of the rendezvous is in the way here. A rank says who it is and
which job it belongs to; then the clocks are compared, a few pieces are sent to see how fast, and the facts follow.
"""

import json
import socket
import struct
import threading
import time
from typing import Any, Callable, List, Mapping, Optional, Tuple

from .facts import Link, Rank
from .store import STRANGER

STOP = "rank 0 has found something broken"
"""What a rank that waits for the verdict may hear."""

_TICKS = 5
_PIECE = bytes(1 << 19)
_PIECES = 4
_SENDING_S = 0.3
# Below this a link is measured again: a rank that the kernel has just put to sleep is not a slow link.
_SURELY_FAST_BYTES_PER_S = 1e8
_TRIES = 3
# On many nodes behind a slow rank 0 the first few tell enough.
_MEASURING_S = 4.0
# Longer than rank 0 waits for the last rank.
_VERDICT_S = 20.0
_TELLING_S = 2.0
_LARGEST = 1 << 24
_LENGTH = struct.Struct("!I")


class MeetingPoint:
    """Rank 0's side. `wait` returns what came in time; a stranger's connection is not a rank."""

    def __init__(self, port: int, job: str, other_count: int, clock: "Clock") -> None:
        self._job = job
        self._clock = clock
        self._missing = other_count
        self._came: List[Rank] = []
        self._lock = threading.Lock()
        self._line = threading.Lock()  # one link is measured at a time
        self._all = threading.Event()
        self._measured_s = 0.0
        self._waiting = 0
        self._concluded = threading.Event()
        self._go = False
        self.port = port
        self.squatter: Optional[str] = None
        self._socket: Optional[socket.socket] = None
        try:
            self._socket = _listening(port)
            self.port = int(self._socket.getsockname()[1])
        except OSError as error:
            self.squatter = error.strerror or str(error)
        if other_count == 0:
            self._all.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def wait(self, patience_s: float, and_then: Optional[Callable[[], None]] = None) -> List[Rank]:
        """Return the ranks that told of themselves, each with its link; rank 0 listens until `and_then` returns."""
        if self._socket is not None:
            self._all.wait(patience_s)
            if and_then is not None:
                and_then()
            self._socket.close()
        with self._lock:
            return list(self._came)

    def conclude(self, *, go: bool) -> None:
        """Tell the ranks that wait for the verdict; back when they have heard it, or do not listen."""
        self._go = go
        self._concluded.set()
        deadline = time.monotonic() + _TELLING_S
        while self._waiting and time.monotonic() < deadline:
            time.sleep(0.002)

    def _accept(self) -> None:
        while self._socket is not None:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(10)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                hello = _receive(connection)
                if hello == STRANGER:
                    _send(connection, STRANGER)
                if hello.get("muster") != self._job:
                    return
                _send(connection, {"muster": self._job})
                with self._line:
                    start_s = time.monotonic()
                    told_enough = not hello.get("first") or self._measured_s > _MEASURING_S
                    link = _measure(connection, self._clock, speed=not told_enough)
                    self._measured_s += time.monotonic() - start_s
                rank = _receive(connection)
                _send(connection, {"heard": True})
                waits = bool(hello.get("waits"))
                self._note(rank, link, waits=waits)
                if waits:
                    self._tell(connection)
                connection.recv(1)  # the other side closes first, so that Muster's port does not stay in use
        except (OSError, ValueError):
            return

    def _note(self, rank: Rank, link: Link, *, waits: bool) -> None:
        rank["link"] = link
        with self._lock:
            self._waiting += waits
            self._came.append(rank)
            self._missing -= 1
            if self._missing <= 0:
                self._all.set()

    def _tell(self, connection: socket.socket) -> None:
        try:
            self._concluded.wait()
            _send(connection, {"go": self._go})
        finally:
            with self._lock:
                self._waiting -= 1


class Clock:
    """The time of this node; with `ahead_s` a simulated one."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def now(self) -> float:
        return time.time() + self.ahead_s


def meet(
    address: str, port: int, job: str, rank: Rank, clock: Clock, patience_s: float, *, waits: bool = False
) -> Optional[str]:
    """Meet rank 0 as another rank: return None where rank 0 has heard it, else why not.

    A waiting rank hears the verdict too.
    """
    deadline = time.monotonic() + patience_s
    trouble = "no answer"
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, port), timeout=max(0.5, deadline - time.monotonic())) as connection:
                connection.settimeout(max(0.5, deadline - time.monotonic()))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _send(connection, {"muster": job, "first": rank["local_rank"] == 0, "waits": waits})
                if _receive(connection) != {"muster": job}:
                    return "another program answers there"
                _answer(connection, clock)
                _send(connection, rank)
                if _receive(connection) != {"heard": True}:
                    return "rank 0 did not receive it"
                return _verdict(connection) if waits else None
        except ValueError:
            return "another program answers there"
        except socket.gaierror as error:
            return f"the name {address} is not known: {error.strerror}"
        except OSError as error:
            trouble = error.strerror or str(error)
            time.sleep(0.05)
    return trouble


def _verdict(connection: socket.socket) -> Optional[str]:
    """Return the verdict that rank 0 tells when the last rank has come, or been waited for in vain."""
    connection.settimeout(_VERDICT_S)
    try:
        return None if _receive(connection).get("go") is True else STOP
    except OSError:
        return "rank 0 ended before it reported its verdict"


def _listening(port: int) -> socket.socket:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen(4096)
    except OSError:
        listener.close()
        raise
    return listener


def _measure(connection: socket.socket, clock: Clock, *, speed: bool) -> Link:
    """Return the clock of the other end, by the shortest of a few round trips; and how fast it sends."""
    ticks: List[Tuple[float, float]] = []
    for _ in range(_TICKS):
        start_s = time.monotonic()
        asked_s = clock.now()
        connection.sendall(b"t")
        (answered_s,) = struct.unpack("!d", _exactly(connection, 8))
        round_trip_s = time.monotonic() - start_s
        ticks.append((round_trip_s, answered_s - (asked_s + round_trip_s / 2)))
    round_trip, offset = min(ticks)
    link = Link(offset_s=round(offset, 4), round_trip_s=round(round_trip, 6))
    for _ in range(_TRIES if speed else 0):
        link["bytes_per_s"] = max(link.get("bytes_per_s", 0.0), round(_speed(connection)))
        if link["bytes_per_s"] > _SURELY_FAST_BYTES_PER_S:
            break
    connection.sendall(b"e")
    return link


def _speed(connection: socket.socket) -> float:
    """Return the bytes a second of a burst, two pieces on their way at any time."""
    start_s = time.monotonic()
    connection.sendall(b"n")
    asked_count, received = 1, 0
    while received < asked_count:
        if asked_count < _PIECES and time.monotonic() - start_s <= _SENDING_S:
            connection.sendall(b"n")
            asked_count += 1
        _exactly(connection, len(_PIECE))
        received += 1
    return received * len(_PIECE) / (time.monotonic() - start_s)


def _answer(connection: socket.socket, clock: Clock) -> None:
    while True:
        question = _exactly(connection, 1)
        if question == b"t":
            connection.sendall(struct.pack("!d", clock.now()))
        elif question == b"n":
            connection.sendall(_PIECE)
        elif question == b"e":
            return
        else:
            raise ValueError("not our words")


def _send(connection: socket.socket, value: Mapping[str, Any]) -> None:
    text = json.dumps(value).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)


def _receive(connection: socket.socket) -> Any:  # what each side says is known where it is read
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > _LARGEST:
        raise ValueError("not a message of Muster")
    document = json.loads(_exactly(connection, length))
    if not isinstance(document, dict):
        raise ValueError("not a message of Muster")  # noqa: TRY004  # a stranger's message is a wrong value, not a wrong type
    return document


def _exactly(connection: socket.socket, count: int) -> bytes:
    pieces = []
    while count:
        piece = connection.recv(min(count, 1 << 16))
        if not piece:
            raise ConnectionError("the connection was closed")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
