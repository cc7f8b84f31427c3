"""The one thing of a lab outside its own world: an entry that says which process is its first."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.errors import RequestError
from muster_lab.kernel import start_time
from muster_lab.spec import check_name


@dataclass(frozen=True)
class LabEntry:
    """Which process a lab is, or is made by. Pid and start time together name a process until the machine reboots."""

    name: str
    pid: int
    started: int
    boot: str
    ready: bool
    version: str = ""
    pids: str = ""
    """The namespace in which the number of the process counts: a lab's hosts see none of this machine's processes."""

    @property
    def is_seen_from_here(self) -> bool:
        return self.boot != _boot() or self.pids in {"", _pids()}

    @property
    def alive(self) -> bool:
        return self.boot == _boot() and start_time(self.pid) == self.started


class LabRegistry:
    """The entries of one user, in `$XDG_STATE_HOME/muster/labs`, or where that cannot be written, beside it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        state = Path(environment.get("XDG_STATE_HOME") or home_of(environment) / ".local/state")
        self.folder = state / "muster/labs"
        self.note: str | None = None
        """Why the entries lie elsewhere than usual."""
        if not _can_be_written(self.folder):
            usual, self.folder = self.folder, _private_folder() / "labs"
            self.note = f"the lab's entry lies in {self.folder}, for {usual} cannot be written"

    def reserve(self, name: str) -> None:
        """Take `name` for a lab that this process is about to make; a name in use is refused."""
        self.clear()
        self._make_folder()
        draft = self._write(f".{name}.{os.getpid()}", _entry(name, os.getpid(), ready=False))
        try:
            os.link(draft, self._file(name))  # unlike a rename, refused where the name is taken
        except FileExistsError:
            raise RequestError(
                f"a lab named {name!r} is already up",
                hint=f"muster lab down --name {name}, or another --name for this one",
            ) from None
        finally:
            draft.unlink()

    def record(self, name: str, pid: int, version: str) -> None:
        """Record that the lab `name` is up: its first process is `pid`."""
        draft = self._write(f".{name}.{os.getpid()}", _entry(name, pid, ready=True, version=version))
        draft.replace(self._file(name))

    def forget(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def find(self, name: str) -> LabEntry:
        """Return the entry of a lab that is up."""
        check_name(name)
        entries = {entry.name: entry for entry in self.clear()}
        if name not in entries:
            if self._file(name).exists():
                raise RequestError(
                    f"the lab {name!r} cannot be reached from here: this is a host of a lab, or a container",
                    hint="type it in a shell of the machine on which muster lab up was typed",
                )
            entries_here = list(entries)
            hint = f"up: {', '.join(entries_here)}" if entries_here else "muster lab up makes one"
            raise RequestError(f"no lab named {name!r} is up", hint=hint)
        if not entries[name].ready:
            raise RequestError(f"the lab {name!r} is still coming up", hint="wait for its `muster lab up` to finish")
        return entries[name]

    def clear(self) -> list[LabEntry]:
        """Drop the entries whose process is gone, and return the others, by name; those of other places stay."""
        kept_entries = []
        if self.note is not None and self.folder.parent.exists():
            _make_private(self.folder.parent)
        for file in sorted(self.folder.glob("*.json")):
            entry = _read(file)
            if entry is not None and not entry.is_seen_from_here:
                continue
            if entry is not None and entry.alive:
                kept_entries.append(entry)
            else:
                file.unlink(missing_ok=True)
        return kept_entries

    def _make_folder(self) -> None:
        if self.note is not None:
            _make_private(self.folder.parent)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, name: str, entry: LabEntry) -> Path:
        file = self.folder / name
        try:
            file.write_text(json.dumps(asdict(entry)) + "\n")
        except OSError as error:
            file.unlink(missing_ok=True)
            raise _unwritable(self.folder, error) from None
        return file


def _unwritable(folder: Path, error: OSError) -> RequestError:
    reason = error.strerror or str(error)
    hint = "make room there, or name a directory that you can write: XDG_STATE_HOME=DIR"
    return RequestError(f"the lab's entry cannot be written in {folder}: {reason}", hint=hint)


def _entry(name: str, pid: int, *, ready: bool, version: str = "") -> LabEntry:
    start_ticks = start_time(pid)
    if start_ticks is None:
        raise RequestError(f"the lab {name!r} ended while it came up", hint="try again")
    return LabEntry(name, pid, start_ticks, _boot(), ready, version, _pids())


def _read(file: Path) -> LabEntry | None:
    try:
        return LabEntry(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pids() -> str:
    return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path, but a name that pathlib may not change


def home_of(environment: Mapping[str, str]) -> Path:
    """Return the caller's home directory: $HOME, or what the machine's list of users has."""
    if home := environment.get("HOME"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def _can_be_written(folder: Path) -> bool:
    """Return whether `folder` can be written, or made where it is not there."""
    try:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists() or parent.is_symlink())
    except PermissionError:
        return False
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _private_folder() -> Path:
    """Return a folder for this user alone, outside of the home directory."""
    uid = os.getuid()
    runtime = Path(f"/run/user/{uid}")
    if runtime.is_dir() and runtime.stat().st_uid == uid and os.access(runtime, os.W_OK | os.X_OK):
        return runtime / "muster"
    return Path(f"/tmp/muster-{uid}")  # noqa: S108  # taken only if nobody else made it


def _make_private(folder: Path) -> None:
    """Make `folder`, and refuse one that another user made or can write."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:  # of a link all may write
        raise RequestError(
            f"{folder} is not yours alone, so no lab is remembered there",
            hint="name a directory that you can write: XDG_STATE_HOME=DIR",
        )


def names_of_labs(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the labs that are up."""
    return [entry.name for entry in LabRegistry(environment).clear()]
