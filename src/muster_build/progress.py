"""What a program that builds says, and that it is still at work where it says nothing for a while."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.runner import Process

Say = Callable[[str], None]

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SILENCE_S = 20.0


def follow_lines(process: Process, say: Say, *, silence_s: float = _SILENCE_S) -> Iterator[str]:
    """Yield every line of its output as it comes.

    Engines that pull or pack are silent for minutes, and are spoken for.
    """
    start_s = time.monotonic()
    stream = process.stdout
    assert stream is not None  # noqa: S101  # it was started with a pipe
    pending = b""
    while True:
        if not select.select([stream], [], [], silence_s)[0]:
            say(f"still at work after {time.monotonic() - start_s:.0f} s{_written(process.pid)}")
            continue
        content = os.read(stream.fileno(), 65536)
        *lines, pending = re.split(rb"[\r\n]", pending + content) if content else [pending, b""]
        yield from filter(None, (_COLOURS.sub("", line.decode(errors="replace")).rstrip() for line in lines))
        if not content:
            return


def _written(group: int) -> str:
    """Return what the processes of the group have written: to disk, or to each other."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(entry.name)) == group:
                total += int(re.findall(r"^wchar: (\d+)$", (entry / "io").read_text(), re.MULTILINE)[0])
        except (OSError, IndexError):  # it has ended, or is somebody else's
            continue
    return f", {total / 1e6:,.0f} MB written" if total >= 1_000_000 else ""
