"""Nobody waits for the dead: a rank that fails tells the others, and one that dies is missed by its neighbour.

Every rank has one thread with a connection of its own to the store. It asks now and then whether the world was
aborted, and looks whether the next rank of its host still lives. Once the world is aborted it says why, leaves the
rank some seconds to come out by itself (a gloo collective does, with an error) and then ends the process: a rank that
hangs in a collective cannot be woken otherwise.
"""

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Optional, Sequence

from .roster import Seat
from .saving import Saving
from .store import Store

_GRACE_S = 5.0

# The ranks are about to agree on something: each waits for it.
_URGENT_S = 0.02

# For rank 0, which keeps the store, to let the others read why it fails; less than their grace.
_LAST_WORDS_S = 3.0


class Watch:
    """This rank's watch over its world, from joining to leaving."""

    def __init__(self, store: Store, seats: Sequence[Seat], rank: int) -> None:
        self._store = store
        self._seat = seats[rank]
        self._size = len(seats)
        self._neighbour = _neighbour(seats, rank)
        self._interval_s = max(0.5, len(seats) / 1000)
        self.saving: Optional[Saving] = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-watch", daemon=True)
        self._thread.start()

    def abort(self, reason: str) -> None:
        """Tell all ranks that this one fails, and let the watch end with it."""
        self._end_thread()
        try:
            self._store.set("aborted", f"rank {self._seat.rank} on {self._seat.host} failed: {reason}")
            self._note("read")
            if self._seat.rank == 0:
                self._wait_for("all read", _LAST_WORDS_S)
        except RuntimeError:
            return  # the store is gone, and with it rank 0: the others know

    def leave(self, patience_s: float) -> None:
        """Leave well. Rank 0, which keeps the store, stays until all have left, or the world is aborted.

        The others' threads ask nothing more once they have said so: the store may be gone at any moment from then on.
        """
        if self._seat.rank != 0:
            self._end_thread()
        try:
            self._store.set(f"left/{self._seat.rank}", "")
            self._note("left")
            if self._seat.rank == 0:
                self._wait_for("all left", patience_s)
        except RuntimeError:
            pass  # rank 0 has ended before: there is nobody left to tell
        self._end_thread()

    def _end_thread(self) -> None:
        self._over.set()
        self._thread.join()

    def _note(self, note: str) -> None:
        """Count this rank in; the last one says that all have done it."""
        if self._store.add(note, 1) == self._size:
            self._store.set(f"all {note}", "")

    def _wait_for(self, key: str, patience_s: float) -> None:
        """Ask now and then: a wait that times out would make torch write warnings."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and not self._store.check([key]):
            if key == "all left" and self._store.check(["aborted"]):
                return
            time.sleep(0.02)

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._over.wait(pause_s):
            try:
                is_urgent = self.saving is not None and self.saving.look(self._store)
                pause_s = _URGENT_S if is_urgent else self._interval_s
                reason = self._aborted()
            except RuntimeError:
                reason = "rank 0, which keeps the store, has ended before the others"
            if reason:
                self._end(reason)

    def _aborted(self) -> Optional[str]:
        if self._store.check(["aborted"]):
            reason = self._store.get("aborted").decode(errors="replace")
            self._note("read")
            return str(reason)
        neighbour = self._neighbour
        if neighbour is not None and not _alive(neighbour) and not self._store.check([f"left/{neighbour.rank}"]):
            self._neighbour = None
            self._store.set("aborted", f"rank {neighbour.rank} on {neighbour.host} has died without a word")
        return None

    def _end(self, reason: str) -> None:
        """End this process, unless its own thread ends it earlier."""
        if self._seat.local_rank == 0:
            print(f"muster: rank {self._seat.rank} leaves, because {reason}", file=sys.stderr, flush=True)
        if self._over.wait(_GRACE_S):
            return
        sys.stdout.flush()
        os._exit(1)


def _neighbour(seats: Sequence[Seat], rank: int) -> Optional[Seat]:
    """Return the next rank of this host, around the ring, if its process can be seen from here."""
    own_host = socket.gethostname()
    ring = [seat for seat in seats if seat.host == own_host]
    if len(ring) < 2:
        return None
    next_rank = ring[(ring.index(seats[rank]) + 1) % len(ring)]
    return next_rank if _alive(next_rank) else None


def _alive(seat: Seat) -> bool:
    return started_at(seat.pid) == seat.started


def started_at(pid: int) -> int:
    """Return when that process began, in the kernel's ticks since it booted.

    0 if it is none, or only waits to be buried.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return 0 if fields[0] in ("Z", "X") else int(fields[19])
