"""`ranks/` as one file that any Python 3.8 runs: one open on the shared file system, not forty.

The same sources give the same bytes, so a file that is there already is the right one.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import zipfile
from pathlib import Path

from muster.errors import RequestError

__all__ = ["packed", "place_check"]

_PACKAGE = Path(__file__).resolve().parent.parent
_PARTS = (
    "check/__init__.py",
    "check/ranks/*.py",
    "rank/__init__.py",
    "rank/errors.py",
    "rank/finding.py",
    "rank/hostlist.py",
    "rank/vendors.py",
)
_START = "import sys\n\nfrom muster.check.ranks.gate import run\n\nrun(sys.argv[1:])\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def packed() -> bytes:
    """Return the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _START)
        _add(archive, "muster/__init__.py", '"""Packed for the nodes of a job."""\n')
        for pattern in _PARTS:
            for path in sorted(_PACKAGE.glob(pattern)):
                _add(archive, f"muster/{path.relative_to(_PACKAGE)}", path.read_text(encoding="utf-8"))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, text)


def place_check(path: Path) -> None:
    """Write it to `path`, unless it is there; nobody ever sees half of it, and nobody else can change it."""
    content = packed()
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
            f"the check cannot be placed at {path}: {error.strerror}",
            hint="start from a directory that you can write and the compute nodes can see",
        ) from None


def _is_own(path: Path) -> bool:
    """Return whether this is a file of the user's that nobody else can write: the ranks run it as the user."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
