"""What the lab's hosts see of this machine's files. Runs inside the lab's world, as its root.

Every host has a /tmp, /dev/shm and /run of its own. The folder of these that a user stands in is shown to all of them
all the same. For a rehearsal everything that could be written is shown as a copy: what is written lies in memory, and
the machine's files stay as they are.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from muster.errors import MachineLacks
from muster_lab import kernel, paths
from muster_lab.kernel import MountFlag, Namespace

_MARKS = (".git", "pyproject.toml", "muster.toml")


# ---------------------------------------------------------------- folders of the machine's /tmp, /dev/shm and /run


def bind_machine(opened: dict[Path, int]) -> None:
    """Keep the machine's own `opened` places, which the lab covers, below `paths.MACHINE`."""
    for place, descriptor in opened.items():
        target = _machine(place)
        target.mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{descriptor}", target, flags=MountFlag.bind | MountFlag.recursive)
        os.close(descriptor)
    kernel.unmount(_machine(paths.RUN))  # the lab's own, which lies over the machine's by now


def project_of(directory: Path) -> Path | None:
    """Return the folder that all hosts have to be shown for `directory`; None where they see it anyway.

    It is the project that the directory belongs to, or the directory itself.
    """
    place = next((own_place for own_place in paths.OWN_PLACES if directory.is_relative_to(own_place)), None)
    if place is None or directory == place or directory.is_relative_to(paths.STATE):
        return None
    inner = [directory, *directory.parents]
    parents = inner[: inner.index(place)]
    return next((parent for parent in parents if any(_exists(_machine(parent) / mark) for mark in _MARKS)), directory)


def show(directory: Path, hosts: Sequence[int]) -> None:
    """Let the login host, and the hosts with the first processes `hosts`, see `directory` from now on."""
    project = project_of(directory)
    if project is None or not _machine(project).is_dir():
        return
    with paths.SHOWN.open("a+") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        if str(project) in read_shown():
            return
        _bind_in_worlds(project, (1, *hosts))
        record.write(f"{project}\n")


def show_all() -> None:
    """Let this host see what the others see; for a host that starts."""
    for folder in read_shown():
        _bind(Path(folder))


def read_shown() -> list[str]:
    """Return the folders that are shown."""
    return paths.SHOWN.read_text().splitlines() if paths.SHOWN.exists() else []


def _bind_in_worlds(folder: Path, first_processes: Sequence[int]) -> None:
    """Bind `folder` in the mount namespaces of these processes."""
    worlds = [os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY) for pid in first_processes]

    def bind_in_each() -> int:
        for world in worlds:
            kernel.join(world, Namespace.mnt)
            _bind(folder)
        return 0

    os.waitpid(kernel.fork(bind_in_each), 0)
    for world in worlds:
        os.close(world)


def _bind(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kernel.mount(_machine(folder), folder, flags=MountFlag.bind | MountFlag.recursive)


def _machine(path: Path) -> Path:
    return paths.MACHINE / path.relative_to("/")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # closed to us
        return False


# ---------------------------------------------------------------- a copy of everything that could be written

# Of the system, or every host's own: nothing of a user's lies there.
_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "proc", "run", "sbin", "sys")
_NOT_COPIED = frozenset((*_SYSTEM, "tmp", "usr"))
_NO_DISKS = frozenset(("autofs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "proc", "securityfs", "sysfs"))


def protect(own_paths: Sequence[str], *, ordinary_user: bool) -> list[str]:
    """Show the machine's files as a copy that can be written; returns the places that can only be read instead.

    `own`: folders of the user's, each with a layer of its own. An ordinary user's kernel cannot copy the folders above,
    which are somebody else's.
    """
    tops = [str(top) for top in Path("/").iterdir() if top.name not in _NOT_COPIED and _is_folder(top)]
    kinds = {place: kind for place, kind in mounts() if any(Path(place).is_relative_to(top) for top in tops)}
    whole = {*tops, *kinds, *map(str, map(_machine, paths.OWN_PLACES))}
    places = sorted({*whole, *(_seen_from_hosts(Path(folder)) for folder in own_paths)})
    opened = {place: os.open(place, os.O_PATH) for place in places if _is_folder(Path(place)) or place in whole}
    closed = []
    for number, (place, lower) in enumerate(opened.items()):
        if kinds.get(place) in _NO_DISKS:
            _show_as_it_is(place, lower)
        elif not _cover(place, lower, str(number), ordinary_user=ordinary_user) and place in whole:
            _show_as_it_is(place, lower)
            _close(place)
            closed.append(place)
        os.close(lower)
    return [place for place in closed if os.access(place, os.X_OK)]  # of the others nobody here sees anything


def _seen_from_hosts(folder: Path) -> str:
    return str(_machine(folder) if any(folder.is_relative_to(place) for place in paths.OWN_PLACES) else folder)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def mounts() -> Iterator[tuple[str, str]]:
    """Yield mount point and type of all that is mounted and can still be reached."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount_part, _, source_part = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), mount_part.split()[4])
        if _exists(Path(place)):
            yield place, source_part.split()[0]


def _cover(place: str, lower: int, name: str, *, ordinary_user: bool) -> bool:
    """Lay an empty writable layer over `place`; whether the kernel does that there."""
    layer = paths.WRITTEN / name
    for folder in ("upper", "work"):
        (layer / folder).mkdir(parents=True)
    (layer / "place").write_text(place)
    old_directory = Path.cwd()
    options = f"lowerdir=.,upperdir={layer}/upper,workdir={layer}/work"
    try:
        os.chdir(f"/proc/self/fd/{lower}")  # relative paths need no escaping in overlayfs' options
        kernel.mount("muster-copy", place, "overlay", options=f"userxattr,{options}" if ordinary_user else options)
    except OSError:  # also a folder that an ordinary user may not enter: /root, /lost+found
        return False
    finally:
        os.chdir(old_directory)
    return True


def _show_as_it_is(place: str, lower: int) -> None:
    """Let `place` be seen also where the layer of the folder above hides it."""
    kernel.mount(f"/proc/self/fd/{lower}", place, flags=MountFlag.bind | MountFlag.recursive)


def _close(place: str) -> None:
    """Let nobody write to the mount at `place`."""
    try:
        kernel.mount("", place, flags=MountFlag.bind | MountFlag.remount | MountFlag.read_only | _flags_of(place))
    except OSError as error:
        raise MachineLacks(
            "copy-on-write",
            f"this machine shows {place} neither as a copy nor closed to writing: {error.strerror}",
            hint="a rehearsal could overwrite what lies there; try it as root, or on another machine",
        ) from None


def _flags_of(place: str) -> MountFlag:
    """Return the flags that an ordinary user's remount has to keep."""
    flags = os.statvfs(place).f_flag
    kept_flags = flags & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    return MountFlag(kept_flags) | (MountFlag.relative_time if flags & os.ST_RELATIME else MountFlag.none)


def list_written() -> list[dict[str, Any]]:
    """Return what was written since `protect`: path and size of each file; size None where it was removed."""
    entries = [entry for layer in sorted(paths.WRITTEN.glob("*/place")) for entry in _of_layer(layer.parent)]
    return sorted(entries, key=lambda entry: str(entry["path"]))


def _of_layer(layer: Path) -> Iterator[dict[str, Any]]:
    place = Path((layer / "place").read_text())  # as the lab sees it
    if place.is_relative_to(paths.MACHINE):
        place = Path("/", place.relative_to(paths.MACHINE))
    for folder, folders, names in os.walk(layer / "upper"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in (Path(folder, name) for name in names):
            status = file.lstat()
            is_removed = stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
            path = place / file.relative_to(layer / "upper")
            yield {"path": str(path), "size": None if is_removed else status.st_size}
