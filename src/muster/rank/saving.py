"""`world.should_save()`: all ranks say yes at the same call, without a collective, at no cost until somebody asks.

The signal of `--save-before` may reach the ranks at different steps. So each rank counts its calls. Once a rank has
the signal, the watch of every rank hears of it in the store and publishes how many calls its rank has made; the rank
promises to make one call more at most before it knows all numbers. The yes is then at the highest number plus one,
which no rank has passed. Watches have threads of their own: a rank that waits for another one holds nothing up.
"""

import math
import signal
import sys
import threading
import time
from typing import Any, Mapping, Optional

from . import contract
from .store import Store

# All watches answer within a second or two; a rank that has left the world never does.
_PATIENCE_S = 60.0
_LOOK_S = 0.01


def time_left(environment: Mapping[str, str]) -> float:
    """Return the seconds until the job's time is over; infinity where there is no job, no limit, or none is known."""
    end = environment.get(contract.END) or environment.get("SLURM_JOB_END_TIME") or ""
    return max(0.0, int(end) - time.time()) if end.isascii() and end.isdigit() else math.inf


class Saving:
    """This rank's part in agreeing when to save."""

    def __init__(self, environment: Mapping[str, str], store: Optional[Store], name: str, rank: int, size: int) -> None:
        self._store = store if size > 1 else None
        self._name, self._rank, self._size = name, rank, size
        self._calls = 0
        self._round = 1
        self._asked = False
        self._pending = False
        self._published: Optional[int] = None
        self._target: Optional[int] = None
        self._before: Any = None
        self._number = _number(environment)
        self.hears = self._number is not None and threading.current_thread() is threading.main_thread()
        if self.hears:
            self._before = signal.signal(self._number, self._hear)  # type: ignore[arg-type]

    def _hear(self, number: int, frame: Any) -> None:
        self._asked = True
        if self._store is None:
            self._pending = True
        if callable(self._before):
            self._before(number, frame)

    def end(self) -> None:
        """Give the signal back to whoever had it before."""
        if self.hears:
            signal.signal(self._number, self._before or signal.SIG_DFL)  # type: ignore[arg-type]

    def should_save(self) -> bool:
        """Whether this is the call at which all ranks save."""
        self._calls += 1
        return self._pending and self._decide()

    def _decide(self) -> bool:
        if self._store is None:
            self._asked = self._pending = False
            return True
        while self._published is None:  # for a moment: the watch is about to count
            time.sleep(_LOOK_S / 10)
        if self._target is None and self._calls > self._published:
            self._wait()
        if self._target is None or self._calls < self._target:
            return False
        self._round += 1
        self._target = None
        self._asked = self._pending = False
        return True

    def _wait(self) -> None:
        """Wait, one call after the published number, until all numbers are known."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._target is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        if self._target is None:
            self._published = sys.maxsize  # it is waited for once
            print("muster: warning: not all ranks answered, so none is told to save", file=sys.stderr, flush=True)

    # --- on the thread of the watch -----------------------------------------------------------------------------------

    def look(self, store: Store) -> bool:
        """Hear whether a rank was asked, publish this rank's number, hear all of them; return whether it is urgent."""
        if self._target is not None:
            return False
        key = f"{self._name}/{self._round}"
        if not self._pending:
            if not self._asked and not store.check([f"{key}/asked"]):
                return False
            store.set(f"{key}/asked", "")
            self._publish(store, key)
        if store.check([f"{key}/at"]):
            self._target = int(store.get(f"{key}/at"))
        return True

    def _publish(self, store: Store, key: str) -> None:
        """First pending, then the number: a call that has not seen the first is counted in the second."""
        self._published = None
        self._pending = True
        self._published = self._calls
        store.set(f"{key}/{self._rank}", str(self._published))
        if store.add(f"{key}/count", 1) == self._size:
            numbers = [int(store.get(f"{key}/{rank}")) for rank in range(self._size)]
            store.set(f"{key}/at", str(max(numbers) + 1))


def _number(environment: Mapping[str, str]) -> Optional[int]:
    """Return the signal at which ranks save; None where the job was started without --save-before."""
    name = environment.get(contract.SAVE_SIGNAL, "")
    number = getattr(signal, f"SIG{name}", None) if name else None
    return None if number is None else int(number)
