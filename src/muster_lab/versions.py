"""Slurm of another version than the machine's: made once, kept in a cache, laid over /usr of a lab."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from muster.errors import CommandFailed, MachineLacks, UnknownName
from muster.runner import Runner, run
from muster_lab import kernel
from muster_lab.debian import Fetched, check_tools, fetch
from muster_lab.kernel import MountFlag

# Version → the Debian suite that has it. Unstable moves on: what it had is in the manifest.
SUITES = {"24.11": "trixie", "26.05": "unstable"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class SlurmRoot:
    """A Slurm that is ready to be laid over a lab's /usr."""

    folder: Path
    version: str
    """As its package has it: 24.11.5-4."""

    packages: Mapping[str, str]
    plugins: str
    """Its plugin directory, as its programs know it."""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where other versions are kept: $XDG_CACHE_HOME/muster/slurm."""
    home = Path(environment.get("HOME") or "/root")
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "muster/slurm"


def prepared_root(version: str, *, cache: Path, say: Say, runner: Runner = run) -> SlurmRoot:
    """Return the Slurm `version` from the cache, or made now. Whatever goes wrong, nothing half-made is left."""
    if version not in SUITES:
        raise UnknownName("Slurm version to fetch", version, tuple(SUITES))
    folder = cache / version
    if (root := _ready(folder)) is not None:
        return root
    check_tools()
    with _room_told(cache), _alone(cache, version, say):
        if (root := _ready(folder)) is not None:
            return root
        if folder.exists():
            say(f"{folder} was changed since it was made; making it again")
            shutil.rmtree(folder)
        with tempfile.TemporaryDirectory(dir=cache, prefix=_draft_prefix(version)) as draft:
            fetched = fetch(SUITES[version], Path(draft), say, runner)
            _write_manifest(fetched)
            fetched.folder.rename(folder)
    say(f"Slurm {fetched.version} is ready in {folder}")
    return SlurmRoot(folder, fetched.version, dict(fetched.packages), fetched.plugins)


def damaged(root: SlurmRoot) -> list[str]:
    """Return the files whose bytes are not those that were made: it reads them all; `prepared_root` compares times."""
    files = _manifest(root.folder)["files"]
    return [name for name, entry in files.items() if _digest(root.folder / name) != entry["sha256"]]


def lay_over(root: SlurmRoot) -> None:
    """Put `root` over /usr of this mount namespace, read-only."""
    old_directory = Path.cwd()
    os.chdir(root.folder)  # relative paths need no escaping in overlayfs' options
    try:
        kernel.mount("muster-slurm", "/usr", "overlay", MountFlag.read_only, "lowerdir=usr:/usr")
        # The machine's own plugins, of another version, must not shine through.
        kernel.mount(root.plugins.removeprefix("/"), root.plugins, flags=MountFlag.bind)
    except OSError as error:
        raise MachineLacks(
            "overlayfs",
            f"this machine cannot lay Slurm {root.version} over /usr: {error.strerror}",
            hint=f"an ordinary user needs Linux 5.11 for that (this is {os.uname().release}); try it as root",
        ) from None
    finally:
        os.chdir(old_directory)


def _ready(folder: Path) -> SlurmRoot | None:
    """Return what stands in `folder`, if every file of it still has the size and time that it was made with."""
    try:
        manifest = _manifest(folder)
        for name, entry in manifest["files"].items():
            status = (folder / name).lstat()
            if (status.st_size, status.st_mtime_ns) != (entry["size"], entry["mtime_ns"]):
                return None
        return SlurmRoot(folder, manifest["version"], manifest["packages"], manifest["plugins"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def _write_manifest(fetched: Fetched) -> None:
    files = {}
    for file in sorted(fetched.folder.rglob("*")):
        if file.is_symlink() or file.is_file():
            status = file.lstat()
            name = str(file.relative_to(fetched.folder))
            files[name] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": _digest(file)}
    facts = {
        "version": fetched.version,
        "suite": fetched.suite,
        "mirror": fetched.mirror,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "plugins": fetched.plugins,
        "packages": dict(fetched.packages),
        "files": files,
    }
    (fetched.folder / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")


def _digest(file: Path) -> str | None:
    """Return the sha256 of a file, or of where a link leads; None where there is nothing."""
    try:
        content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(content).hexdigest()


def _draft_prefix(version: str) -> str:
    return f".{version}-draft-"


@contextmanager
def _alone(cache: Path, version: str, say: Say) -> Iterator[None]:
    """Let one process at a time make a version; the rest of a killed one is removed."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{version}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is making Slurm {version}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in cache.glob(f"{_draft_prefix(version)}*"):
            shutil.rmtree(stale)
        yield


# What apt and dpkg say of it; apt's number is the same in every language.
_FULL = re.compile(r"No space left|quota exceeded|\(28: ", flags=re.IGNORECASE)


@contextmanager
def _room_told(cache: Path) -> Iterator[None]:
    """Tell a full disk for what it is, whichever program ran into it; and a directory that is closed to us."""
    try:
        yield
    except (OSError, CommandFailed) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number in {errno.ENOSPC, errno.EDQUOT} or (isinstance(error, CommandFailed) and _FULL.search(error.stderr)):
            message = f"no space is left under {cache}: another Slurm needs 120 MB while it is made, 60 MB afterwards"
            raise MachineLacks(
                "room", message, "make room there, or name another directory in XDG_CACHE_HOME"
            ) from None
        if number in {errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
            message = f"{cache} cannot be written: {error.strerror}" if isinstance(error, OSError) else str(cache)
            raise MachineLacks("cache", message, "name another directory in XDG_CACHE_HOME") from None
        raise
