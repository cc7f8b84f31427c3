"""The one thing of a lab outside its own world: an entry that says which process is its first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.errors import RequestError
from muster.lab.kernel import start_time
from muster.lab.spec import check_name

__all__ = ["Entry", "Registry"]


@dataclass(frozen=True)
class Entry:
    """Which process a lab is, or is made by. Pid and start time together name a process until the machine reboots."""

    name: str
    pid: int
    started: int
    boot: str
    ready: bool
    version: str = ""

    @property
    def alive(self) -> bool:
        return self.boot == _boot() and start_time(self.pid) == self.started


class Registry:
    """The entries of one user, in `$XDG_STATE_HOME/muster/labs`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = Path(environment.get("HOME") or "/root")
        self.folder = Path(environment.get("XDG_STATE_HOME") or home / ".local/state") / "muster/labs"

    def reserve(self, name: str) -> None:
        """Take `name` for a lab that this process is about to make; a name in use is refused."""
        self.clear()
        self.folder.mkdir(parents=True, exist_ok=True)
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
        """The lab `name` is up: its first process is `pid`."""
        draft = self._write(f".{name}.{os.getpid()}", _entry(name, pid, ready=True, version=version))
        draft.replace(self._file(name))

    def forget(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def find(self, name: str) -> Entry:
        """The entry of a lab that is up."""
        check_name(name)
        entries = {entry.name: entry for entry in self.clear()}
        if name not in entries:
            known = list(entries)
            hint = f"up: {', '.join(known)}" if known else "muster lab up makes one"
            raise RequestError(f"no lab named {name!r} is up", hint=hint)
        if not entries[name].ready:
            raise RequestError(f"the lab {name!r} is still coming up", hint="wait for its `muster lab up` to finish")
        return entries[name]

    def clear(self) -> list[Entry]:
        """Drop the entries whose process is gone; the others, by name."""
        kept = []
        for file in sorted(self.folder.glob("*.json")):
            entry = _read(file)
            if entry is not None and entry.alive:
                kept.append(entry)
            else:
                file.unlink(missing_ok=True)
        return kept

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, name: str, entry: Entry) -> Path:
        file = self.folder / name
        file.write_text(json.dumps(asdict(entry)) + "\n")
        return file


def _entry(name: str, pid: int, *, ready: bool, version: str = "") -> Entry:
    started = start_time(pid)
    if started is None:
        raise RequestError(f"the lab {name!r} ended while it came up", hint="try again")
    return Entry(name, pid, started, _boot(), ready, version)


def _read(file: Path) -> Entry | None:
    try:
        return Entry(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
