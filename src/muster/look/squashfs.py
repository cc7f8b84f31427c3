"""A look into a squashfs without mounting or unpacking it: single files, as the few blocks that hold them.

Only what Python unpacks by itself (gzip, the default of Apptainer; lzma and xz), and tables that are not packed at all.
The format: the kernel's Documentation/filesystems/squashfs.rst.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

_SUPER = struct.Struct("<4s4I6H8Q")
_HEAD = struct.Struct("<4HII")
_IN_PLAIN = 1 << 15
_BLOCK_IN_PLAIN = 1 << 24
_NO_FRAGMENT = 0xFFFFFFFF
# A table longer than this belongs to no image that a person uses; a damaged length asks for no memory.
_MOST_BYTES = 1 << 24
_MOST_UNPACKED = 1 << 20  # of one block: what the format allows
_DIRECTORIES, _FILES, _LINKS = {1, 8}, {2, 9}, {3, 10}


class CannotBeRead(Exception):
    """It is packed in another way, or damaged."""


class _Node(msgspec.Struct, frozen=True):
    """One inode: what kind it is, and where its content lies."""

    kind: int
    size: int
    start: int = 0
    offset: int = 0
    fragment: int = _NO_FRAGMENT
    blocks: tuple[int, ...] = ()
    link: str = ""


class SquashFs:
    """The file system that begins at byte `offset` of a file."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._file, self._base = path.open("rb"), offset
        head = self._bytes(0, _SUPER.size)
        if head[:4] != b"hsqs":
            raise CannotBeRead("it holds no squashfs")
        fields = _SUPER.unpack(head)
        self._block_size, self._packing, self._root = fields[3], fields[5], fields[11]
        if not 1 << 12 <= self._block_size <= 1 << 20:
            raise CannotBeRead("its blocks are of no size that the format knows")
        self._inodes, self._listings, self._fragments = fields[15:18]
        self._blocks: dict[int, tuple[bytes, int]] = {}
        self._listed: dict[tuple[int, int, int], dict[str, int]] = {}

    def __del__(self) -> None:
        self._file.close()

    def glob(self, pattern: str) -> Iterator[str]:
        """Yield paths that fit, `*` within a name; links on the way are followed."""
        yield from self._glob("", [part for part in pattern.split("/") if part])

    def _glob(self, folder: str, parts: list[str]) -> Iterator[str]:
        if not parts:
            yield folder
            return
        first, rest = parts[0], parts[1:]
        for name in self._matching(folder, first):
            path = f"{folder}/{name}" if folder else name
            if self.has(path):
                yield from self._glob(path, rest)

    def _matching(self, folder: str, pattern: str) -> list[str]:
        node = self._find(folder)
        if node is None or node.kind not in _DIRECTORIES:
            return []
        return sorted(name for name in self._list(node) if fnmatchcase(name, pattern))

    def has(self, path: str) -> bool:
        """Return whether the path is there, links followed from the image's own root."""
        return self._find(path) is not None

    def read(self, path: str, most_bytes: int = 1 << 22) -> bytes:
        """Return the first `most_bytes` of a file; nothing where there is none."""
        node = self._find(path)
        return b"" if node is None or node.kind not in _FILES else self._content(node, min(node.size, most_bytes))

    def _find(self, path: str) -> _Node | None:
        rest = [part for part in path.split("/") if part]
        trail = [self._node(self._root)]
        for _ in range(256):
            if not rest:
                return trail[-1]
            name = rest.pop(0)
            if name == ".":
                continue
            if name == "..":
                trail = trail[:-1] or trail
                continue
            if trail[-1].kind not in _DIRECTORIES:
                return None
            address = self._list(trail[-1]).get(name)
            if address is None:
                return None
            node = self._node(address)
            if node.kind in _LINKS:
                trail = trail[:1] if node.link.startswith("/") else trail
                rest = [*(part for part in node.link.split("/") if part), *rest]
            else:
                trail.append(node)
        return None

    def _node(self, reference: int) -> _Node:
        place, offset = self._inodes + (reference >> 16), reference & 0xFFFF
        head = self._table(place, offset, _HEAD.size)
        kind = _HEAD.unpack(head)[0]
        shapes = {1: "<IIHHI", 8: "<IIIIHHI", 2: "<IIII", 9: "<QQQIIII", 3: "<II", 10: "<II"}
        if kind not in shapes:
            return _Node(kind, 0)
        fixed = struct.calcsize(shapes[kind])
        fields = struct.unpack(shapes[kind], self._table(place, offset + _HEAD.size, fixed))
        next_offset = offset + _HEAD.size + fixed
        if kind == 1:
            return _Node(kind, fields[2], fields[0], fields[3])
        if kind == 8:
            return _Node(kind, fields[1], fields[2], fields[5])
        if kind in _LINKS:
            return _Node(
                kind, fields[1], link=self._table(place, next_offset, fields[1]).decode(errors="surrogateescape")
            )
        start, fragment, inner, size = fields if kind == 2 else (fields[0], fields[4], fields[5], fields[1])
        count = size // self._block_size + (fragment == _NO_FRAGMENT and size % self._block_size > 0)
        sizes = struct.unpack(f"<{count}I", self._table(place, next_offset, 4 * count))
        return _Node(kind, size, start, inner, fragment, sizes)

    def _list(self, folder: _Node) -> dict[str, int]:
        """Return the references of the inodes by name."""
        folder_key = (folder.start, folder.offset, folder.size)  # an empty one lies where the next begins
        if folder_key not in self._listed:
            self._listed[folder_key] = dict(self._entries(folder))
        return self._listed[folder_key]

    def _entries(self, folder: _Node) -> Iterator[tuple[str, int]]:
        text = self._table(self._listings + folder.start, folder.offset, max(folder.size - 3, 0))
        place = 0
        while place + 12 <= len(text):
            count, start, _ = struct.unpack_from("<III", text, place)
            place += 12
            for _ in range(count + 1):
                if place + 8 > len(text):
                    raise CannotBeRead("a directory is cut off")
                offset, _, _, length = struct.unpack_from("<HhHH", text, place)
                name = text[place + 8 : place + 9 + length]
                yield name.decode(errors="surrogateescape"), start << 16 | offset
                place += 9 + length

    def _content(self, node: _Node, byte_count: int) -> bytes:
        parts, place, held_bytes = [], node.start, 0
        for number, size in enumerate(node.blocks):
            if held_bytes >= byte_count:
                break
            length = size & (_BLOCK_IN_PLAIN - 1)
            whole = min(self._block_size, node.size - number * self._block_size)
            parts.append(self._unpacked(place, length, plain=bool(size & _BLOCK_IN_PLAIN)) if length else bytes(whole))
            place += length
            held_bytes += whole
        if held_bytes < byte_count:  # the tail lies in a fragment
            (table,) = struct.unpack("<Q", self._bytes(self._fragments + 8 * (node.fragment // 512), 8))
            start, size, _ = struct.unpack("<QII", self._table(table, 16 * (node.fragment % 512), 16))
            length = size & (_BLOCK_IN_PLAIN - 1)
            shared = self._unpacked(start, length, plain=bool(size & _BLOCK_IN_PLAIN))
            parts.append(shared[node.offset : node.offset + node.size % self._block_size])
        return b"".join(parts)[:byte_count]

    def _table(self, place: int, offset: int, length: int) -> bytes:
        """Return the bytes of a table, counted from the block at `place`: its blocks follow one another."""
        if length > _MOST_BYTES:
            raise CannotBeRead("a table is longer than any")
        text = b""
        while len(text) < offset + length:
            if place not in self._blocks:
                (head,) = struct.unpack("<H", self._bytes(place, 2))
                size = head & (_IN_PLAIN - 1)
                if not size:
                    raise CannotBeRead("a table is cut off")
                unpacked = self._unpacked(place + 2, size, plain=bool(head & _IN_PLAIN))
                self._blocks[place] = (unpacked, place + 2 + size)
            block, place = self._blocks[place]
            text += block
        return text[offset : offset + length]

    def _unpacked(self, place: int, length: int, *, plain: bool) -> bytes:
        packed = self._bytes(place, length)
        if plain:
            return packed
        try:
            if self._packing == 1:
                import zlib

                return zlib.decompressobj().decompress(packed, _MOST_UNPACKED)
            if self._packing in {2, 4}:
                import lzma

                return lzma.LZMADecompressor().decompress(packed, _MOST_UNPACKED)
        except Exception as error:  # noqa: BLE001  # zlib.error and LZMAError have no common parent
            raise CannotBeRead(f"a block is damaged: {error}") from None
        raise CannotBeRead("it is packed in a way that Python does not unpack")

    def _bytes(self, place: int, length: int) -> bytes:
        if length > _MOST_BYTES:
            raise CannotBeRead("a block is longer than any")
        try:
            self._file.seek(self._base + place)
            content = self._file.read(length)
        except (OSError, OverflowError, ValueError) as error:
            raise CannotBeRead(str(error)) from None
        if len(content) < length:
            raise CannotBeRead("it is shorter than it says")
        return content
