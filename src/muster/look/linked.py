"""Which libraries a compiled program is linked with, read from its ELF file. Runs nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from muster.ownership import AnyPath

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS = 1, 5
# A table that is larger is not of a program, but of a broken file.
_MOST_BYTES = 1 << 20


def libraries_of(program: AnyPath) -> tuple[str, ...]:
    """Return the names of the libraries that a 64-bit program asks for; none where the file is another kind."""
    try:
        with open(program, "rb") as file:
            return tuple(_needed(file))
    except (OSError, ValueError, struct.error):
        return ()


def _needed(file: BinaryIO) -> Iterator[str]:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, the lowest byte first
        return
    (start,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    file.seek(start)
    table = file.read(size * count)
    segments = [struct.unpack_from("<IIQQQQ", table, size * index) for index in range(count)]
    loads = [(address, offset, length) for kind, _, offset, address, _, length in segments if kind == _LOAD]
    dynamic = b"".join(_read(file, offset, length) for kind, _, offset, _, _, length in segments if kind == _DYNAMIC)
    entries = list(struct.iter_unpack("<QQ", dynamic[: len(dynamic) // 16 * 16]))
    strings = next((value for tag, value in entries if tag == _STRINGS), None)
    if strings is None:
        return
    for address, offset, length in loads:
        if address <= strings < address + length:
            text = _read(file, offset + strings - address, length - (strings - address))
            yield from (_name_at(text, value) for tag, value in entries if tag == _NEEDED)


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(min(length, _MOST_BYTES))


def _name_at(text: bytes, start: int) -> str:
    return text[start : text.index(b"\0", start)].decode(errors="replace")
