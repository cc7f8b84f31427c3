"""Sources packed into one file that any Python 3.8 runs: one open on the shared file system, not forty.

The same sources give the same bytes, so a file that is there already is the right one.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.errors import RequestError

SOURCES = Path(__file__).resolve().parent.parent.parent
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def pack_sources(patterns: Sequence[str], texts: Mapping[str, str]) -> bytes:
    """Return one file of the sources that match the patterns and of these texts; `__main__.py` is what starts it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            _add(archive, name, text)
        for pattern in patterns:
            for path in sorted(SOURCES.glob(pattern)):
                _add(archive, str(path.relative_to(SOURCES)), path.read_text(encoding="utf-8"))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, text)


def place_packed(content: bytes, path: Path, purpose: str) -> None:
    """Write the file, unless it is there; nobody ever sees half of it, and nobody else can change it."""
    try:
        if _is_own(path) and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise RequestError(
            f"{purpose} cannot be placed at {path}: {error.strerror}",
            hint="start from a directory that you can write and the compute nodes can see",
        ) from None


def _is_own(path: Path) -> bool:
    """Return whether this is a file of the user's that nobody else can write: the ranks run it as the user."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
