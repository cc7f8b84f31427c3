"""Open MPI's labelled output as whole lines: it labels what it reads of a rank, and that may be half a line.

`[1,3]<stdout>:hello[1,3]<stdout>: world` becomes `3: hello world`, as every other launcher writes it.
"""

from __future__ import annotations

import re

from muster.older import pairwise

_TAG = re.compile(rb"\[[0-9]+,([0-9]{1,15})\]<std(out|err|diag)>:")
# A program that writes no line ends must not fill our memory: its line is broken here.
_LONGEST_LINE_BYTES = 1 << 20


class Pieces:
    """One stream of a launcher's; lines without a tag are passed on as they are."""

    def __init__(self) -> None:
        self._rest = b""
        self._held: dict[tuple[bytes, bytes], bytes] = {}

    def feed(self, chunk: bytes) -> bytes:
        """Return what is whole now."""
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        lines = [self._line(line) for line in whole.split(b"\n")] if newline else []
        if len(self._rest) > _LONGEST_LINE_BYTES:
            lines.append(self._line(self._rest))
            self._rest = b""
        return b"".join(lines)

    def end(self) -> bytes:
        """Return what never got its end."""
        last = self._line(self._rest) if self._rest else b""
        self._rest = b""
        rows, self._held = self._held, {}
        return last + b"".join(rank + b": " + text + b"\n" for (rank, _), text in rows.items())

    def _line(self, line: bytes) -> bytes:
        """Return one line of the stream.

        A piece that another rank's interrupts is held until the rest of its line comes.
        """
        tags = list(_TAG.finditer(line))
        if not tags or tags[0].start():
            return line + b"\n"
        for tag, next_tag in pairwise(tags):
            self._hold((tag[1], tag[2]), line[tag.end() : next_tag.start()])
        last = tags[-1]
        return last[1] + b": " + self._held.pop((last[1], last[2]), b"") + line[last.end() :] + b"\n"

    def _hold(self, stream: tuple[bytes, bytes], text: bytes) -> None:
        self._held[stream] = self._held.get(stream, b"") + text
