"""What a lab takes of this machine's memory, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def memory_mib(pid: int) -> float:
    """Return the memory of a process and of all that descend from it; what several share counts once."""
    return sum(map(_proportional_kib, _family(pid))) / 1024


def _family(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        yield parent
        with suppress(OSError):  # it has ended meanwhile
            for task in Path(f"/proc/{parent}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())


def _proportional_kib(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0
