"""The lab's first process: makes the namespaces, then only reaps. When it ends, the kernel ends everything in them.

Until `commit`, it also ends when the process that began it does, so an `up` that is killed leaves nothing.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from io import RawIOBase

from muster.errors import CommandFailed, SiteError
from muster.runner import Runner, run
from muster_lab import kernel
from muster_lab.kernel import Namespace
from muster_lab.requirements import IdRange, namespaces_refused


@dataclass(frozen=True)
class FirstProcess:
    """The first process as the machine sees it, and the pipe that it watches."""

    pid: int
    lifeline: int

    def commit(self) -> None:
        """Let the lab outlive us."""
        os.write(self.lifeline, b"!")
        os.close(self.lifeline)

    def end(self) -> None:
        """End the lab with all that is in it; returns when all of it is gone."""
        end(self.pid)
        os.close(self.lifeline)


@dataclass(frozen=True)
class IdRanges:
    """The subordinate ids that an ordinary user's lab may use beside the user's own."""

    uids: IdRange
    gids: IdRange


def begin(ranges: IdRanges | None, *, runner: Runner = run) -> FirstProcess:
    """Start a first process in fresh namespaces; with `ranges`, as an ordinary user, its root is the caller."""
    lifeline_end, lifeline = os.pipe()
    news, news_end = os.pipe()
    mapped_end, mapped = os.pipe()
    starter = kernel.fork(lambda: _starter(ranges is not None, lifeline_end, news_end, mapped_end))
    for descriptor in (lifeline_end, news_end, mapped_end):
        os.close(descriptor)
    with os.fdopen(news) as lines, os.fdopen(mapped, "wb", buffering=0) as go_on:
        try:
            return FirstProcess(_hear(lines, starter, ranges, go_on, runner), lifeline)
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            go_on.close()
            os.waitpid(starter, 0)


def _hear(lines: Iterable[str], starter: int, ranges: IdRanges | None, go_on: RawIOBase, runner: Runner) -> int:
    """Do what the starter asks for; returns the pid of the first process."""
    for line in lines:
        word, _, detail = line.strip().partition(" ")
        if word == "refused":
            raise namespaces_refused(int(detail), os.geteuid())
        if word == "pid":
            return int(detail)
        if ranges is not None:
            _map_ids(starter, ranges, runner)
            go_on.write(b"!")
    raise SiteError("the lab's first process did not start", hint="try again; if it happens again, please report it")


def _map_ids(pid: int, ranges: IdRanges, runner: Runner) -> None:
    """Call newuidmap and newgidmap themselves: `unshare --map-auto` needs util-linux 2.38."""
    for program, own_id, id_range in (("newuidmap", os.getuid(), ranges.uids), ("newgidmap", os.getgid(), ranges.gids)):
        words = [0, own_id, 1, 1, id_range.first, id_range.length]
        result = runner([program, str(pid), *map(str, words)])
        if not result.ok:
            raise CommandFailed(
                result.argv, result.status, result.stderr, hint=f"is {program} setuid root, as its package installs it?"
            )


def _starter(as_ordinary_user: bool, lifeline: int, news: int, mapped: int) -> int:
    """Stand between the caller and the first process: unshare, report, fork, end."""
    kernel.detach(keep=(lifeline, news, mapped))
    try:
        if as_ordinary_user:
            kernel.unshare(Namespace.user)
            os.write(news, b"unshared\n")
            if not os.read(mapped, 1):
                return 1
        kernel.unshare(Namespace.net | Namespace.mnt | Namespace.uts | Namespace.ipc | Namespace.pid)
    except OSError as error:
        os.write(news, f"refused {error.errno}\n".encode())
        return 1
    os.close(mapped)
    pid = kernel.fork(lambda: _first(lifeline, news))
    os.write(news, f"pid {pid}\n".encode())
    return 0


def _first(lifeline: int, news: int) -> int:
    os.close(news)
    return reap(lifeline)


def reap(lifeline: int | None = None) -> int:
    """Be the first process of a pid namespace: collect what ends, for ever, or until `lifeline` breaks."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = [woken] if lifeline is None else [woken, lifeline]
    _collect()
    while True:
        ready, _, _ = select.select(watched, [], [])
        if lifeline in ready:
            if not os.read(lifeline, 1):
                return 1
            os.close(lifeline)
            watched = [woken]
        if woken in ready:
            os.read(woken, 4096)
            _collect()


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


# The kernel ends some thousand processes and their namespaces in less than a second.
_PATIENCE_S = 60


def end(pid: int) -> None:
    """Send SIGKILL to a first process and wait until the kernel has ended everything that lived in it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not select.select([process], [], [], _PATIENCE_S)[0]:
            raise SiteError(
                f"the lab's first process, {pid}, does not end", hint="a process of it may hang in the kernel"
            )
    except ProcessLookupError:
        pass
    finally:
        os.close(process)
