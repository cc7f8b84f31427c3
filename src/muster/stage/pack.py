"""A folder or file as one archive, made once: the shared file system is then read by name a single time."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from muster.act.runner import checked, run
from muster.errors import RequestError

__all__ = ["Packed", "pack"]

Say = Callable[[str], None]
_HOURS_S = 6 * 3600


class Packed(msgspec.Struct, frozen=True):
    """What was packed, and the archive that holds it."""

    source: Path
    key: str
    """Changes with the path, and with the names, sizes, times and modes of everything below it."""

    archive: Path
    digest: str
    """SHA-256 of the archive."""

    compressed: bool


def pack(source: Path, cache: Path, environment: Mapping[str, str], say: Say) -> Packed:
    """The archive of `source`, from the cache where nothing has changed since."""
    if not source.exists():
        raise RequestError(f"{source} is not there", hint="name a folder or a file")
    key = f"{source.name.strip('.') or 'root'}-{_fingerprint(source)}"
    compressed = shutil.which("zstd", path=environment.get("PATH")) is not None
    archive = cache / f"{key}.tar{'.zst' if compressed else ''}"
    note = archive.with_name(f"{archive.name}.sha256")
    if not (archive.is_file() and note.is_file()):
        say(f"packing {source}")
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(source, archive, note, compressed=compressed)
    return Packed(source, key, archive, note.read_text().split()[0], compressed)


def _write(source: Path, archive: Path, note: Path, *, compressed: bool) -> None:
    """Nobody finds half of it under its name: the digest is written last, and the archive renamed before it."""
    draft = archive.with_name(f".{archive.name}.{os.getpid()}")
    program = ["--use-compress-program=zstd -3 -T0"] if compressed else []
    words = ["tar", "--create", f"--file={draft}", *program, "-C", str(source.parent), "--", source.name]
    try:
        checked(run(words, timeout_s=_HOURS_S), hint="is there room for the archive? --cache DIR names another place")
        with draft.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        draft.rename(archive)
        note.write_text(f"{digest}  {archive.name}\n")
    finally:
        draft.unlink(missing_ok=True)


def _fingerprint(source: Path) -> str:
    whole = hashlib.sha256(os.fsencode(source))
    for line in _entries(source):
        whole.update(line)
    return whole.hexdigest()[:16]


def _entries(source: Path) -> Iterator[bytes]:
    for path in [source, *sorted(source.rglob("*"))] if source.is_dir() else [source]:
        told = path.lstat()
        size = 0 if path.is_dir() and not path.is_symlink() else told.st_size
        yield os.fsencode(path) + f"\0{size}\0{told.st_mtime_ns}\0{told.st_mode:o}\n".encode()
