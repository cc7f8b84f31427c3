"""Facts as short lines of text: a launcher's own stream carries them, in any order, between lines of anybody else.

srun breaks lines beyond 1024 bytes and mixes the pieces of its tasks, so a document goes over several lines.
"""

import base64
import json
import re
import zlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

_MARK = "muster-facts"
END = _MARK + " end"
"""Rank 0 has told all that it will."""

_PLACE = re.compile(_MARK + r" place (\S+) ([0-9]+)")
_PIECE = 800
_LINE = re.compile(_MARK + r" ([0-9]+) ([0-9]+)/([0-9]+) ([A-Za-z0-9+/=]+)")


def line_of_place(address: str, port: int) -> str:
    """Return the line that says where rank 0 can be reached."""
    return f"{_MARK} place {address} {port}"


def lines_of(number: int, document: Any) -> Iterator[str]:
    """Yield the lines that carry a document; `number` tells it from those of other ranks."""
    text = base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    for index, piece in enumerate(pieces, start=1):
        yield f"{_MARK} {number} {index}/{len(pieces)} {piece}"


class LineReader:
    """Puts documents together again."""

    def __init__(self) -> None:
        self._parts: Dict[int, Dict[int, str]] = {}
        self.documents: List[Any] = []
        self.unreadable = 0
        self.ended = False
        self.place: Optional[Tuple[str, int]] = None
        """Where rank 0 can be reached."""

    def take(self, line: str) -> bool:
        """Return whether the line is Muster's; a complete document is then in `documents`."""
        match = _LINE.search(line)
        if match is None:
            place = _PLACE.search(line)
            if place is not None:
                self.place = place[1], int(place[2])
            self.ended = self.ended or END in line
            return END in line or place is not None
        number, index, count = (int(text) for text in match.groups()[:3])
        parts = self._parts.setdefault(number, {})
        parts[index] = match.group(4)
        if len(parts) == count:
            del self._parts[number]
            self._whole(sorted(parts.items()))
        return True

    def _whole(self, parts: List[Tuple[int, str]]) -> None:
        try:
            text = zlib.decompress(base64.b64decode("".join(piece for _, piece in parts)))
            self.documents.append(json.loads(text))
        except (ValueError, zlib.error):
            self.unreadable += 1
