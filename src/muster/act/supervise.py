"""Ranks on this machine: started together, labelled, and ended together when one of them fails.

A signal to us goes to all of them; what has not ended a grace time later is killed.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec.structs import replace

from muster.act.guard import Guard, guarded
from muster.runner import DEVNULL, PIPE, start

if TYPE_CHECKING:
    from muster.runner import Process

_CHUNK_BYTES = 65536
# A pipe holds 1 MiB at most.
_MOST_CHUNKS = 16
# torchrun's report of a failure stands at the end of what it says.
_KEPT_BYTES = 1 << 18
_END_BYTES = 8192


class Member(msgspec.Struct, frozen=True):
    """One process to start: a rank, or an agent that starts ranks."""

    rank: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]


class Outcome(msgspec.Struct, frozen=True):
    """How it ended: the status to leave with, and the rank that failed first, if one did."""

    status: int
    first_failed: int | None
    """The rank that failed by itself, before anybody was asked to end."""

    unmet: str | None = None
    """The address at which ranks that ended well never met, where that was looked at."""

    reports: tuple[str, ...] = ()
    """The end of what each member said on its stderr, where that was asked for."""

    last_errors: str = ""
    """The end of what the rank that failed first said on its stderr, where that went through our hands."""


class _Running(msgspec.Struct):
    member: Member
    process: Process
    own_group: bool
    guard: Guard
    errors: _Stream | None = None
    status: int | None = None

    def watch(self) -> None:
        if self.own_group:
            self.guard.watch_group(self.process.pid)
        else:
            self.guard.watch_process(self.process.pid)

    def reap(self) -> None:
        """Take the status; the guard forgets the number unless it is that of a group that still has processes."""
        status = self.process.wait()
        self.status = 128 - status if status < 0 else status
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            self.guard.forget(self.process.pid)

    def send(self, number: int) -> None:
        try:
            if self.own_group:
                os.killpg(self.process.pid, number)
            elif self.status is None:
                self.process.send_signal(number)
        except ProcessLookupError:
            pass


class _Stream(msgspec.Struct):
    """One pipe of one rank; whole lines go out behind their label."""

    label: bytes
    target: BinaryIO
    rest: bytes = b""
    end: bytes = b""
    """The last of what came, for the known errors in it."""

    def feed(self, chunk: bytes) -> None:
        self.end = (self.end + chunk)[-_END_BYTES:]
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        if lines:
            self.target.write(b"".join(self.label + line + b"\n" for line in lines))
            self.target.flush()

    def close(self) -> None:
        if self.rest:
            self.target.write(self.label + self.rest + b"\n")
            self.target.flush()


class _Report(msgspec.Struct):
    """One pipe of one agent, passed on as it is; its end is kept."""

    target: BinaryIO
    end: bytes = b""

    def feed(self, chunk: bytes) -> None:
        self.target.write(chunk)
        self.target.flush()
        self.end = (self.end + chunk)[-_KEPT_BYTES:]

    def close(self) -> None:
        pass


class _Signals(msgspec.Struct):
    """The signals that came in while we were waiting; woken through a pipe."""

    numbers: list[int] = msgspec.field(default_factory=list)

    def note(self, number: int, _frame: object) -> None:
        self.numbers.append(number)


class _Settings(msgspec.Struct, frozen=True):
    """How the members are started and ended."""

    label: bool
    working_directory: str
    grace_s: float
    reports: list[_Report] | None
    guard: Guard


def supervise(
    members: Sequence[Member], *, label: bool, grace_s: float, working_directory: str, report: bool = False
) -> Outcome:
    """Start all members, pass their output on, and return when every one has ended.

    `report`: keep the end of what each says on stderr; of agents, which alone know how their ranks ended.
    """
    signals = _Signals()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old_wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    old = {number: signal.signal(number, signals.note) for number in handled}
    try:
        with guarded(members[0].environment, grace_s) as guard:
            settings = _Settings(label, working_directory, grace_s, [] if report else None, guard)
            outcome = _run(members, settings, signals, reader)
    finally:
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
    return replace(outcome, reports=tuple(report.end.decode(errors="replace") for report in settings.reports or ()))


def _run(members: Sequence[Member], settings: _Settings, signals: _Signals, reader: int) -> Outcome:
    running: list[_Running] = []
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ, "signal")
            for member in members:
                running.append(_start(member, selector, settings))  # noqa: PERF401  # `finally` ends those that started
            return _wait(running, selector, signals, reader, settings.grace_s)
    finally:
        for child in running:
            child.send(signal.SIGKILL)
            child.process.wait()
        settings.guard.finish()


def _start(member: Member, selector: selectors.BaseSelector, settings: _Settings) -> _Running:
    # Rank 0 may read the terminal, which only the foreground group is allowed to do.
    own_group = member.rank != 0 or not sys.stdin.isatty()
    pipe = PIPE if settings.label else None
    reports = settings.reports
    process = start(
        member.argv,
        env=member.environment,
        cwd=settings.working_directory,
        stdin=None if member.rank == 0 else DEVNULL,
        stdout=pipe,
        stderr=pipe if reports is None else PIPE,
        own_group=own_group,
    )
    running = _Running(member, process, own_group, settings.guard)
    running.watch()
    selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, running)
    prefix = f"{member.rank}: ".encode()
    for source, target in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)):
        if source is None:
            continue
        os.set_blocking(source.fileno(), False)
        if reports is not None and source is process.stderr:
            reports.append(_Report(target))
            selector.register(source, selectors.EVENT_READ, reports[-1])
        else:
            stream = _Stream(prefix, target)
            running.errors = stream if source is process.stderr else None
            selector.register(source, selectors.EVENT_READ, stream)
    return running


def _wait(
    running: list[_Running], selector: selectors.BaseSelector, signals: _Signals, reader: int, grace_s: float
) -> Outcome:
    first: _Running | None = None
    interrupted: int | None = None
    deadline: float | None = None
    while any(child.status is None for child in running):
        patience = None if deadline is None else max(0.0, deadline - time.monotonic())
        for key, _ in selector.select(patience):
            if isinstance(key.data, (_Stream, _Report)):
                _drain(key, selector)
            elif isinstance(key.data, _Running):
                _reap(key, selector)
                if first is None and interrupted is None and key.data.status:
                    first = key.data
            else:
                os.read(reader, 64)
        while signals.numbers:
            interrupted = interrupted or signals.numbers[0]
            _end_all(running, signals.numbers.pop(0))
            deadline = deadline or time.monotonic() + grace_s
        if first is not None and deadline is None:
            _end_all(running, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
        if deadline is not None and time.monotonic() >= deadline:
            _end_all(running, signal.SIGKILL)
            deadline = time.monotonic() + grace_s
    _close_streams(selector)
    if interrupted is not None:
        return Outcome(128 + interrupted, None)
    if first is None:
        return Outcome(0, None)
    last_errors = "" if first.errors is None else first.errors.end.decode(errors="replace")
    return Outcome(first.status or 0, first.member.rank, last_errors=last_errors)


def _close_streams(selector: selectors.BaseSelector) -> None:
    """Pass on what is in the pipes: all ranks have ended, and what left a rank's group is not waited for."""
    for key in list(selector.get_map().values()):
        if isinstance(key.data, (_Stream, _Report)):
            is_more_left = all(_drain(key, selector) for _ in range(_MOST_CHUNKS))
            if is_more_left:
                key.data.close()


def _drain(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
    """Pass on what one pipe holds; whether there may be more."""
    try:
        chunk = os.read(key.fd, _CHUNK_BYTES)
    except BlockingIOError:
        chunk = b""
    if chunk:
        key.data.feed(chunk)
        return True
    key.data.close()
    selector.unregister(key.fileobj)
    return False


def _reap(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    key.data.reap()
    selector.unregister(key.fileobj)
    os.close(key.fd)


def _end_all(running: list[_Running], number: int) -> None:
    for child in running:
        child.send(number)
