"""Folders or a file as an archive in chunks, made once: the shared file system is read file by file a single time."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from muster.errors import RequestError
from muster.model.plan import Staged, Staging
from muster.runner import checked, run

Say = Callable[[str], None]
_HOURS_S = 6 * 3600
_CHUNK_BYTES = 16 << 20
_CHUNKS_MOST = 512
# So long a packing is silent.
SILENT_S = 5.0


class Packed(msgspec.Struct, frozen=True):
    """What was packed, and the folder that holds it in chunks, beside the list of their digests."""

    folder: Path
    key: str
    """Changes with the paths, and with the names, sizes, times and modes of everything below them."""

    kind: str
    """tree.zst, tree, or file: as it is."""

    count: int
    digest: str
    """SHA-256 of the list of the chunks' own."""

    made_now: bool = False


def place_all(staging: Staging, say: Say) -> None:
    """Pack all that a plan stages, where the job will look for it: before it waits, and while nobody pays for nodes."""
    for thing in staging.things:
        place(thing, say)


def place(thing: Staged, say: Say) -> Packed:
    """Pack what a plan stages, and say in its file `latest` which archive is to be used."""
    folder = Path(thing.packed)
    start_s = time.monotonic()
    with _progress(thing.name, folder, say):
        packed = pack([Path(path) for path in thing.paths], folder, leave_out=thing.leave_out)
    time_text = time.strftime("%Y-%m-%d %H:%M:%S")
    draft = folder / f".latest.{os.getpid()}"
    draft.write_text("\t".join([packed.key, packed.kind, str(packed.count), packed.digest, time_text]) + "\n")
    draft.rename(folder / "latest")
    if packed.made_now:
        size = sum(path.stat().st_size for path in (folder / packed.key).iterdir())
        say(f"packed {thing.name}: {size / 1e6:.0f} MB in {time.monotonic() - start_s:.1f} s")
        _remove_all_but(folder, packed.key)
    return packed


@contextmanager
def _progress(name: str, folder: Path, say: Say) -> Iterator[None]:
    """Say every few seconds how much of an archive is written, until the block ends."""
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(SILENT_S):
            with suppress(OSError):  # a chunk gets its last name while we look
                size = sum(path.stat().st_size for path in folder.glob(f".*.{os.getpid()}/*"))
                say(f"packing {name}: {size / 1e6:,.0f} MB are written")

    thread = threading.Thread(target=tell, daemon=True)  # an interrupt may come before the try
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def pack(sources: Sequence[Path], folder: Path, *, leave_out: Sequence[str] = ()) -> Packed:
    """Return the archive of `sources`, in `folder`; the one that is there where nothing has changed since."""
    for source in sources:
        if not source.exists():
            raise RequestError(f"{source} is not there", hint="name a folder or a file")
        if any(ord(character) < 32 for character in str(source)):
            raise RequestError(f"{str(source)!r} holds a control character", hint="rename it")
    size, digest = _fingerprint(sources, leave_out)
    key = f"{sources[0].name.strip('.') or 'root'}-{digest}"
    staged = _found(folder, key)
    if staged is not None:
        return staged
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(sources, folder, key, size, leave_out)
    if _fingerprint(sources, leave_out)[1] != digest:
        shutil.rmtree(folder / key, ignore_errors=True)
        raise RequestError(f"{sources[0]} changed while it was packed", hint="try again when nothing writes to it")
    made_archive = _found(folder, key)
    assert made_archive is not None  # noqa: S101  # it has just been renamed to this name
    return msgspec.structs.replace(made_archive, made_now=True)


def _kind(sources: Sequence[Path]) -> str:
    if len(sources) == 1 and sources[0].is_file():
        return "file"
    return "tree.zst" if shutil.which("zstd") else "tree"


def _found(folder: Path, key: str) -> Packed | None:
    try:
        chunk_bytes = (folder / key / "chunks").read_bytes()
        kind = (folder / key / "kind").read_text().strip()
    except OSError:
        return None
    return Packed(folder, key, kind, chunk_bytes.count(b"\n"), hashlib.sha256(chunk_bytes).hexdigest())


def _write(sources: Sequence[Path], folder: Path, key: str, size: int, leave_out: Sequence[str]) -> None:
    """Write the archive, and rename it once the list of its digests is written: nobody finds half of it.

    Each chunk is hashed on its way to the disk, and nothing is read a second time.
    """
    kind = _kind(sources)
    draft = folder / f".{key}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    chunk = max(_CHUNK_BYTES, size // _CHUNKS_MOST)
    # tar's status 1 says that a file changed meanwhile, also where only the number of its links did.
    tar = '{ tar --create --file=- --directory=/ --anchored --no-wildcards "$@" || [ $? -eq 1 ]; }'
    reader = 'cat "$@"' if kind == "file" else tar
    compressor = " | zstd -q -3 -T0" if kind == "tree.zst" else ""
    hashing = 'tee "$FILE" | sha256sum >"$FILE.sha256"'
    text = (
        f"set -o pipefail; draft=$1 chunk=$2; shift 2; {reader}{compressor}"
        f" | split --bytes=$chunk --numeric-suffixes --suffix-length=6 --filter='{hashing}' - \"$draft/\""
    )
    names = [str(source) if kind == "file" else str(source).lstrip("/") for source in sources]
    excludes = [f"--exclude={pattern.lstrip('/')}" for pattern in leave_out]
    try:
        words = ["bash", "-c", text, "muster-pack", str(draft), str(chunk), *excludes, "--", *names]
        checked(run(words, timeout_s=_HOURS_S), hint="is there room for the archive where it is kept?")
        lines = []
        for path in sorted(draft.glob("*.sha256")):
            lines.append(f"{path.read_text().split()[0]}  {path.stem}\n")
            path.unlink()
        (draft / "kind").write_text(f"{kind}\n")
        (draft / "chunks").write_text("".join(lines))
        shutil.rmtree(folder / key, ignore_errors=True)
        draft.rename(folder / key)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_all_but(folder: Path, key: str) -> None:
    """Remove all other archives; a job that still waits for one uses the shared files."""
    for path in folder.iterdir():
        if path.is_dir() and path.name != key and not path.name.startswith("."):
            shutil.rmtree(path, ignore_errors=True)


def _fingerprint(sources: Sequence[Path], leave_out: Sequence[str]) -> tuple[int, str]:
    """Return its size, and what changes whenever it does. A folder's own time says nothing that its names do not."""
    whole = hashlib.sha256()
    size = 0
    for source in sources:
        whole.update(os.fsencode(source) + b"\0")
        for line, length in _entries(os.fsencode(source), [os.fsencode(pattern) for pattern in leave_out]):
            whole.update(line)
            size += length
    return size, whole.hexdigest()[:16]


def _entries(source: bytes, leave_out: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    if not os.path.isdir(source):  # bytes, and tens of thousands of them
        yield _told(source, os.stat(source))
        return
    todo = [source]
    while todo:
        folder = todo.pop()
        with os.scandir(folder) as iterator:
            entries = sorted(iterator, key=lambda entry: entry.name)
        for entry in entries:
            if entry.path in leave_out:
                continue
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
                yield entry.path + b"\0", 0
            else:
                yield _told(entry.path, entry.stat(follow_symlinks=False))


def _told(path: bytes, status: os.stat_result) -> tuple[bytes, int]:
    return path + f"\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_mode:o}\n".encode(), status.st_size
