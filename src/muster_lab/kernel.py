"""The few Linux calls that make and enter a lab's world, which old Pythons do not have.

Forks live here and not in `runner.py`: a namespace is entered by a child, not by a program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from enum import IntFlag
from functools import cache
from pathlib import Path

from muster.older import pairwise


class Namespace(IntFlag):
    """Kinds of namespace, by the name they have in /proc/PID/ns; `mnt` last, for it changes what /proc is."""

    user = 0x10000000
    ipc = 0x08000000
    uts = 0x04000000
    net = 0x40000000
    pid = 0x20000000
    mnt = 0x00020000


EVERY_KIND = ~Namespace(0)


class MountFlag(IntFlag):
    """Flags of mount(2)."""

    none = 0
    read_only = 0x1
    no_suid = 0x2
    no_device = 0x4
    remount = 0x20
    bind = 0x1000
    recursive = 0x4000
    no_execution = 0x8
    no_access_time = 0x400
    no_folder_access_time = 0x800
    private = 0x40000
    relative_time = 0x200000


_SET_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36


def unshare(kinds: Namespace) -> None:
    """Put this process (for pid: its next child) into fresh namespaces."""
    _call("unshare", ctypes.c_int(kinds))


def enter(pid: int, kinds: Namespace = EVERY_KIND) -> None:
    """Join those namespaces of `pid`; its pid namespace holds for our next child."""
    if Namespace.user in kinds and _inode(pid, Namespace.user) == _inode("self", Namespace.user):
        kinds &= ~Namespace.user  # the kernel refuses to join the user namespace that one is in
    # All are opened before the first is joined: /proc is another one afterwards.
    descriptors = {kind: os.open(f"/proc/{pid}/ns/{kind.name}", os.O_RDONLY) for kind in Namespace if kind in kinds}
    for kind, descriptor in descriptors.items():
        join(descriptor, kind)
        os.close(descriptor)


def join(descriptor: int, kind: Namespace) -> None:
    """Join the namespace that `descriptor` is open on."""
    _call("setns", ctypes.c_int(descriptor), ctypes.c_int(kind))


def _inode(process: int | str, kind: Namespace) -> int:
    return Path(f"/proc/{process}/ns/{kind.name}").stat().st_ino


def mount(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    kind: str = "",
    flags: MountFlag = MountFlag.none,
    options: str = "",
) -> None:
    """Call mount(2)."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    _call("mount", *words, ctypes.c_ulong(flags), os.fsencode(options), subject=os.fspath(target))


def unmount(target: str | os.PathLike[str]) -> None:
    """Unmount what is mounted last at `target`, and all that is mounted below it."""
    _call("umount2", os.fsencode(target), ctypes.c_int(_DETACH), subject=os.fspath(target))


_DETACH = 2


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask for signal `number` when the parent ends. Forgotten when the user id changes: ask after that."""
    _call("prctl", ctypes.c_int(_SET_DEATH_SIGNAL), ctypes.c_ulong(number))


def become_subreaper() -> None:
    """Become the parent of orphans among this process's descendants, instead of the first process."""
    _call("prctl", ctypes.c_int(_SET_CHILD_SUBREAPER), ctypes.c_ulong(1))


def fork(child: Callable[[], int]) -> int:
    """Run `child` in a new process, which ends with the status it returns; gives the new process's id."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own work after a fork would swallow the exception of a Ctrl-C, and print it. It ends the new process.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()  # noqa: TID251
    if not pid and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if pid:
        return pid
    status = 70
    try:
        status = child()
    except BaseException:  # noqa: BLE001  # nothing of the parent's stack may go on in the child
        traceback.print_exc()
    finally:
        os._exit(status)


def detach(keep: Collection[int] = (), log: str | os.PathLike[str] = os.devnull) -> None:
    """Leave the terminal, the session and every open file of the parent, but those in `keep`; speak to `log`."""
    os.setsid()
    os.chdir("/")
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY), (2, log, os.O_WRONLY)):
        descriptor = os.open(path, flags | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    close_files(keep)


def close_files(keep: Collection[int] = ()) -> None:
    """Close every open file but 0, 1, 2 and `keep`: a pipe that a fork holds on to never breaks."""
    edges = sorted({2, *keep, os.sysconf("SC_OPEN_MAX")})
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)


def end_children() -> None:
    """Kill this process's children, and theirs where it is their subreaper, until none is left."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        for _ in children:
            os.wait()


def start_time(pid: int) -> int | None:
    """Return clock ticks from the machine's start to the process's.

    None where it is gone, or only waits to be collected. With the pid, it names a process until the machine reboots.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _libc() -> ctypes.CDLL:
    """Return this process's own C library, opened when it is first called: importing does nothing."""
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object, subject: str | None = None) -> None:
    if getattr(_libc(), name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", subject)
