"""Which processes a lab is made of, as the machine sees them; they are known by pid and start time together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from muster_lab.kernel import start_time
from plugins.patience import patient

Process = tuple[int, int]


def named(pid: int) -> Process | None:
    """The process, if it lives."""
    started = start_time(pid)
    return None if started is None else (pid, started)


def descendants(pid: int) -> set[Process]:
    """The process and all that descend from it."""
    found = {named(pid)}
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found |= descendants(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return {process for process in found if process is not None}


def with_word(word: str) -> set[Process]:
    """Every process that has `word` in its command line, and all that descend from one."""
    found: set[Process] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                found |= descendants(int(entry.name))
    return found


def alive(processes: Iterable[Process]) -> set[Process]:
    """Those that still run."""
    return {process for process in processes if named(process[0]) == process}


def becomes_true(holds: Callable[[], bool], timeout_s: float = 30, every_s: float = 0.05) -> bool:
    """Wait until it holds, longer on a slow or busy machine; whether it did."""
    deadline = time.monotonic() + patient(timeout_s)
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def of_the_machine() -> tuple[set[str], set[str]]:
    """Return the mounts and the network interfaces that everybody on the machine sees.

    Podman mounts its store for as long as it builds, in the tests of another shard too.
    """
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = {line.split(maxsplit=1)[1] for line in lines if "/containers/storage" not in line}
    return mounts, {interface.name for interface in Path("/sys/class/net").iterdir()}
