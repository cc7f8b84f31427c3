"""What is being built has another name than what is finished, and a record beside it says what it was built from."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.errors import RequestError
from muster.look.image_facts import look_at_path


@contextmanager
def swapped_in(target: Path) -> Iterator[Path]:
    """Yield a name in a directory beside `target`.

    It becomes `target` when the block ends well, and is gone otherwise.
    """
    if not target.parent.is_dir():
        raise RequestError(f"the directory {target.parent} is not there", hint="make it, or give another place")
    _clear(target)
    place = target.with_name(f".{target.name}.part-{platform.node()}-{os.getpid()}")
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    try:
        place.mkdir()
    except OSError as error:
        raise RequestError(
            f"nothing can be written in {target.parent}: {error.strerror}", hint="name a folder that you can write: -o"
        ) from None
    try:
        yield place / target.name  # engines put things of their own beside what they build
        if target.is_dir() and not target.is_symlink():
            target.rename(old)
        (place / target.name).rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for leftover in (place, old):
            remove(leftover)


def _clear(target: Path) -> None:
    """Remove what killed builds of this host left; builds of other hosts may still be at work."""
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.part-{glob.escape(platform.node())}-*"):
        number = leftover.name.rpartition("-")[2]
        if number.isdigit() and not Path("/proc", number).exists():
            remove(leftover)


def remove(path: Path) -> None:
    """Take a file or a tree away, also one whose directories are closed to their owner."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return

    def opened(function: Callable[..., Any], name: str, error: BaseException) -> None:
        del error
        Path(name).parent.chmod(stat.S_IRWXU)
        if Path(name).is_dir():
            Path(name).chmod(stat.S_IRWXU)
        function(name)

    shutil.rmtree(path, onerror=lambda function, name, error: opened(function, name, error[1]))


def record_of(target: Path) -> Path:
    """Return where the record of an image is: beside it."""
    return target.with_name(f"{target.name}.json")


def read_record(file: Path) -> dict[str, Any]:
    """Return what it says; nothing where there is none, or it cannot be read."""
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def digest_of_inputs(inputs: Mapping[str, Any]) -> str:
    """Return a digest that is the same for the same inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def digest_of_path(path: Path) -> str:
    """Return the digest of a file's content, or of a tree's names, links, contents and modes."""
    if not path.exists():
        raise RequestError(f"{path} is not there", hint="check the name")
    whole = hashlib.sha256()
    for member in [path, *sorted(path.rglob("*"))]:
        whole.update(
            f"{member.relative_to(path)}\0{member.lstat().st_mode & 0o170111:o}\0".encode(errors="surrogateescape")
        )
        if member.is_symlink():
            whole.update(os.fsencode(member.readlink()))
        elif member.is_file():
            whole.update(_digest(member))
    return whole.hexdigest()


def _digest(path: Path) -> bytes:
    content = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            content.update(part)
    return content.digest()


def is_up_to_date(target: Path, record: Path, inputs: str, *, replace: bool) -> bool:
    """Return whether what is there was built from the same; another is only built over it when `replace` says so."""
    if not target.exists():
        return False
    if read_record(record).get("inputs") == inputs:
        return True
    if not (record.exists() or _may_be_lost(target)):
        raise RequestError(
            f"{target} is a directory that Muster did not build: it is not replaced", hint="give another name"
        )
    if not replace:
        subject = (
            "was built from something else" if record.exists() else "exists, but no record says what it was built from"
        )
        raise RequestError(f"{target} {subject}", hint="--replace puts the new one in its place once it is proved")
    return False


def _may_be_lost(target: Path) -> bool:
    """Return whether --replace may remove it: an image, a sandbox, a virtual environment; not a home, not a project."""
    if target.is_symlink() or not target.is_dir():
        return True
    return (target / "pyvenv.cfg").exists() or look_at_path(target).kind == "sandbox" or not any(target.iterdir())
