"""Ranks on this machine: started together, labelled, and ended together when one of them fails.

A signal to us goes to all of them; what has not ended a grace time later is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from muster.act.guard import Guard, guarded
from muster.act.pump import ENDINGS, Labels, Pump, Tail, Target, listening, pass_on
from muster.runner import shell_status, spawn

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
    pid: int
    own_group: bool
    guard: Guard
    pidfd: int
    pumps: list[Pump]
    errors: Tail | None
    status: int | None = None

    def watch(self) -> None:
        if self.own_group:
            self.guard.watch_group(self.pid)
        else:
            self.guard.watch_process(self.pid)

    def reap(self) -> None:
        """Take the status; the guard forgets the number unless it is that of a group that still has processes."""
        if self.status is not None:
            return
        self.status = shell_status(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))
        os.close(self.pidfd)
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            self.guard.forget(self.pid)

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.own_group:
                os.killpg(self.pid, number)
            elif self.status is None:
                os.kill(self.pid, number)


class _Settings(msgspec.Struct, frozen=True):
    """How the members are started and ended."""

    label: bool
    working_directory: str
    grace_s: float
    reports: list[Tail] | None
    guard: Guard
    out: Target
    errors: Target
    nothing: int
    """A descriptor that is always at its end: only rank 0 may read."""


def supervise(
    members: Sequence[Member], *, label: bool, grace_s: float, working_directory: str, report: bool = False
) -> Outcome:
    """Start all members, pass their output on, and return when every one has ended.

    `report`: keep the end of what each says on stderr; of agents, which alone know how their ranks ended.
    """
    reports: list[Tail] | None = [] if report else None
    signals: list[int] = []
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        with listening(signals, ENDINGS) as wake, guarded(members[0].environment, grace_s) as guard:
            settings = _Settings(label, working_directory, grace_s, reports, guard, Target(1), Target(2), nothing)
            outcome = _run(members, settings, signals, wake)
    finally:
        os.close(nothing)
    return replace(outcome, reports=tuple(tail.text for tail in reports or ()))


def _run(members: Sequence[Member], settings: _Settings, signals: list[int], wake: int) -> Outcome:
    for stream in filter(None, (sys.stdout, sys.stderr)):  # what was said before stands before
        stream.flush()
    running: list[_Running] = []
    try:
        for member in members:
            running.append(_start(member, settings))  # noqa: PERF401  # `finally` ends those that started
        return _wait(running, signals, wake, settings.grace_s)
    finally:
        for child in running:
            child.send(signal.SIGKILL)
            child.reap()
            for pump in child.pumps:
                os.close(pump.reader)
        settings.guard.finish()


def _start(member: Member, settings: _Settings) -> _Running:
    # Rank 0 may read the terminal, which only the foreground group is allowed to do.
    own_group = member.rank != 0 or not sys.stdin.isatty()
    reports = settings.reports
    label = f"{member.rank}: ".encode()
    pumps = {1: Pump(settings.out, form=Labels(label))} if settings.label else {}
    errors = None
    # A rank without a label keeps the terminal; elsewhere its last lines are read on the way, for the cause.
    if settings.label or reports is not None or not os.isatty(2):
        errors = Tail(_END_BYTES if reports is None else _KEPT_BYTES)
        form = Labels(label) if settings.label and reports is None else None
        pumps[2] = Pump(settings.errors, form=form, take_chunk=errors.take)
        if reports is not None:
            reports.append(errors)
    files = {} if member.rank == 0 else {0: settings.nothing}
    files.update({number: pump.writer for number, pump in pumps.items()})
    try:
        pid = spawn(
            member.argv,
            member.environment,
            files=files,
            own_group=own_group,
            inherits=False,
            folder=settings.working_directory,
        )
    finally:
        for pump in pumps.values():
            os.close(pump.writer)
    running = _Running(member, pid, own_group, settings.guard, os.pidfd_open(pid), list(pumps.values()), errors)
    running.watch()
    return running


def _wait(running: list[_Running], signals: list[int], wake: int, grace_s: float) -> Outcome:
    pumps = [pump for child in running for pump in child.pumps]
    first: _Running | None = None
    interrupted: int | None = None
    deadline: float | None = None
    while any(child.status is None for child in running):
        members = {child.pidfd: child for child in running if child.status is None}
        ready = pass_on(pumps, wake, members, None if deadline is None else max(0.0, deadline - time.monotonic()))
        for pump in pumps:
            _raise_error(pump)
        for child in [members[descriptor] for descriptor in ready if descriptor in members]:
            child.reap()
            if first is None and interrupted is None and child.status:
                first = child
        while signals:
            interrupted = interrupted or signals[0]
            _end_all(running, signals.pop(0))
            deadline = deadline or time.monotonic() + grace_s
        if first is not None and deadline is None:
            _end_all(running, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
        if deadline is not None and time.monotonic() >= deadline:
            _end_all(running, signal.SIGKILL)
            deadline = time.monotonic() + grace_s
    _pass_rest(pumps)
    if interrupted is not None:
        return Outcome(128 + interrupted, None)
    if first is None:
        return Outcome(0, None)
    last_errors = "" if first.errors is None else first.errors.text
    return Outcome(first.status or 0, first.member.rank, last_errors=last_errors)


def _pass_rest(pumps: list[Pump]) -> None:
    """Pass on what is in the pipes: all ranks have ended, and what left a rank's group is not waited for."""
    for pump in pumps:
        for _ in range(_MOST_CHUNKS):
            pump.target.write_all()
            if not pump.has_more:
                break
            pump.read()
        pump.finish()
        pump.target.write_all()
        _raise_error(pump)


def _raise_error(pump: Pump) -> None:
    """Raise the error of a stream of Muster that cannot be written: the ranks are then ended."""
    if pump.target.error is not None:
        raise pump.target.error


def _end_all(running: list[_Running], number: int) -> None:
    for child in running:
        child.send(number)
