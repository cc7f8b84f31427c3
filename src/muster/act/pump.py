"""The streams of what Muster has started, passed on in a loop that also hears signals: a slow reader stops nothing.

`rank/agent_keeper.py` has a pump of its own: it runs on the nodes under any Python from 3.8 on, as a text in the job's
script, and imports nothing of Muster's.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHUNK_BYTES = 1 << 16
# A pipe that can be written takes so much at once.
_PIECE_BYTES = 4096


class Form(Protocol):
    """What a stream is made into on its way, chunk by chunk."""

    def feed(self, chunk: bytes) -> bytes:
        """Return what is whole now."""
        ...

    def end(self) -> bytes:
        """Return what never got its end."""
        ...


class Labels:
    """Whole lines behind a label."""

    def __init__(self, label: bytes) -> None:
        self._label = label
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that are whole now, each behind the label."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(self._label + line + b"\n" for line in lines)

    def end(self) -> bytes:
        """Return the last line, which never got its end."""
        rest, self._rest = self._rest, b""
        return self._label + rest + b"\n" if rest else b""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self.data = b""
        self._most = most

    def take(self, chunk: bytes) -> None:
        """Add a chunk."""
        self.data = (self.data + chunk)[-self._most :]

    @property
    def text(self) -> str:
        """Return the bytes as text."""
        return self.data.decode(errors="replace")


class Target:
    """A descriptor that pumps write to; of several pumps, one after the other. A failed write is noted once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: OSError | None = None
        self._pending = memoryview(b"")

    @property
    def waits_for_room(self) -> bool:
        """Return whether something was given that is not written yet."""
        return bool(self._pending)

    def give(self, data: bytes) -> None:
        """Take what is to be written; nothing waits at this moment."""
        self._pending = memoryview(data if self.error is None else b"")

    def write(self) -> None:
        """Write as much as a pipe takes that has room."""
        try:
            self._pending = self._pending[os.write(self.descriptor, self._pending[:_PIECE_BYTES]) :]
        except BlockingIOError:
            return
        except OSError as error:  # the ranks go on until they are ended: what they say has no place
            self.error, self._pending = error, memoryview(b"")

    def write_all(self) -> None:
        """Write until nothing waits, however slow the reader is."""
        while self._pending:
            select.select([], [self.descriptor], [], 1.0)
            self.write()


class Pump:
    """One stream that a program writes, passed on; its end is kept."""

    def __init__(
        self,
        target: Target,
        *,
        kept_bytes: int = 0,
        form: Form | None = None,
        take_chunk: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """Read a pipe of its own. `take_chunk` is told what comes, before its form."""
        self.reader, self.writer = os.pipe()
        self.target = target
        self.open = True
        self.bytes_read = 0
        self._tail = Tail(kept_bytes) if kept_bytes else None
        self._form = form
        self._take_chunk = take_chunk

    @property
    def end(self) -> str:
        """Return the end of what was passed on."""
        return "" if self._tail is None else self._tail.text

    @property
    def is_done(self) -> bool:
        """Return whether there is nothing to wait for."""
        return not self.open and not self.target.waits_for_room

    def descriptor(self) -> tuple[int, int]:
        """Return what to wait for: more to read, or room to write it to."""
        if self.target.waits_for_room:
            return self.target.descriptor, select.POLLOUT
        return self.reader, select.POLLIN

    @property
    def has_more(self) -> bool:
        """Return whether there is something to read at this moment, or the end."""
        waiting = select.poll()  # select() knows no descriptor beyond 1023
        waiting.register(self.reader, select.POLLIN)
        return self.open and bool(waiting.poll(0))

    def read(self) -> None:
        """Read what there is, and give it to the target; nothing waits there at this moment."""
        chunk = os.read(self.reader, _CHUNK_BYTES)
        self.open = bool(chunk)
        self.bytes_read += len(chunk)
        self._take_chunk(chunk)
        if self._form is not None:
            chunk = self._form.feed(chunk) if chunk else self._form.end()
        self._give(chunk)

    def finish(self) -> None:
        """Write what never got its end, where a process that left its rank's group holds the stream open."""
        if self._form is None:
            return
        self.target.write_all()
        self._give(self._form.end())
        self.target.write_all()

    def _give(self, data: bytes) -> None:
        if self._tail is not None:
            self._tail.take(data)
        self.target.give(data)


def pass_on(pumps: Iterable[Pump], wake: int, others: Collection[int], patience_s: float | None) -> list[int]:
    """Wait for something to do, pass on what there is, and return what was ready; `wake` is emptied."""
    waiting = select.poll()
    for descriptor in (wake, *others):
        waiting.register(descriptor, select.POLLIN)
    # Of several pumps to one target, one has to do with its descriptor.
    needs = {pump.descriptor(): pump for pump in pumps if not pump.is_done}
    pump_of = {descriptor: pump for (descriptor, _), pump in needs.items()}
    for descriptor, event in needs:
        waiting.register(descriptor, event)
    ready = [descriptor for descriptor, _ in waiting.poll(None if patience_s is None else patience_s * 1000)]
    if wake in ready:
        os.read(wake, 512)
    for descriptor in ready:
        if descriptor in pump_of:
            _go_on(descriptor, pump_of[descriptor])
    return ready


def _go_on(descriptor: int, pump: Pump) -> None:
    """Do what `descriptor` is ready for: write what waits, or read, unless another pump has just filled the target."""
    if descriptor == pump.target.descriptor:
        pump.target.write()
    elif not pump.target.waits_for_room:
        pump.read()


@contextmanager
def listening(noted: list[int], signals: Iterable[int]) -> Iterator[int]:
    """Note the signals that come, and yield the descriptor that wakes a loop when one does."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    old_waker = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    old = {number: signal.signal(number, lambda number, _: noted.append(number)) for number in signals}
    try:
        yield wake
    finally:
        signal.set_wakeup_fd(old_waker)
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(wake)
        os.close(waker)
