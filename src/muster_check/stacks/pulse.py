"""What the kernel counts of the threads of a rank, and what of it happened between two looks. Pure.

The main thread says whether a rank goes on: a thread beside it writes metrics also while the main thread hangs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

OF_PULSE = ("@pulse ", "@thread ", "@below ")
"""How the lines begin, as gather.sh writes them."""

FORBIDDEN = "the kernel forbids to look into the process"
NO_SPY = "py-spy is not on this host"
"""Why a rank has no call stack, as gather.sh says it."""


class Thread(msgspec.Struct, frozen=True):
    """One thread."""

    spent_ns: int
    """On a processor."""

    times: int
    """How often it came to a processor: a thread that waits and is not woken does not."""

    call: str
    """How it waits: r not at all, u until something comes, t with an end, and its milliseconds in hex; ? unknown."""

    @property
    def period_s(self) -> float | None:
        """Return after which time the wait ends, where the call says it."""
        return int(self.call[1:], 16) % (1 << 32) / 1000 if self.call.startswith("t0x") else None


class Below(msgspec.Struct, frozen=True):
    """A process that the rank has started."""

    spent_ns: int
    times: int
    bytes: int


class Pulse(msgspec.Struct, frozen=True):
    """The counts of one rank at one moment."""

    at_s: float
    """The seconds since the host's start."""

    bytes: int
    """That its main thread read and wrote."""

    threads: dict[int, Thread]
    below: dict[int, Below]
    sleeps_s: float | None = None
    """How long the main thread sleeps at most, from now; None: it does not sleep, or that is not known."""

    @property
    def spent_s(self) -> float:
        """Return the processor time of all threads of the rank, and of the processes below it that still run."""
        threads = sum(thread.spent_ns for thread in self.threads.values())
        return (threads + sum(process.spent_ns for process in self.below.values())) / 1e9


def read_pulses(lines: Sequence[str]) -> tuple[Pulse, ...]:
    """Return the counts of one rank: of the moment before the look at its stack, and of the one after it."""
    found: list[Pulse] = []
    for line in lines:
        name, *words = line.split()[:5] or [""]
        if name == "@pulse" and len(words) > 1 and words[1].isdigit():
            sleep = words[2] if len(words) > 2 else ""
            sleeps_s = float(sleep) if sleep.lstrip("-").isdigit() else None
            found.append(Pulse(float(words[0]), int(words[1]), {}, {}, sleeps_s))
        elif found and len(words) == 4 and all(word.isdigit() for word in words[:3]):
            number, spent_ns, times = map(int, words[:3])
            if name == "@thread":
                found[-1].threads[number] = Thread(spent_ns, times, words[3])
            elif name == "@below" and words[3].isdigit():
                found[-1].below[number] = Below(spent_ns, times, int(words[3]))
    return tuple(found)


class Beat(msgspec.Struct, frozen=True):
    """What happened in a rank between its looks; what a look itself caused is not in it."""

    seconds: float
    spent_ns: int
    """That the main thread was on a processor."""

    times: int
    """How often the main thread came to a processor."""

    bytes: int
    """That the main thread read and wrote."""

    waits_for_ever: bool
    """Whether the main thread had no end of its wait at any look: what wakes it then has come."""

    period_s: float | None
    """After which time the main thread wakes by itself, where its call says it."""

    sleeps_s: float | None
    """How long the main thread still sleeps, at most."""

    woken: frozenset[int]
    """The other threads that something came for, and those that compute."""

    below_works: bool
    """Whether a process below the rank was begun, computed, read or wrote."""

    cpu_beside: float
    """The part of a core that its other threads used, and the processes below it that still run."""

    works_beside: bool
    """Whether another thread computed more, whenever it woke, than to look at something."""

    @property
    def cpu(self) -> float:
        """Return the part of a core that the main thread used."""
        return self.spent_ns / 1e9 / self.seconds

    @property
    def works_at_a_time(self) -> bool:
        """Return whether the main thread computes more, whenever it wakes, than to look at something."""
        return self.times > 0 and self.spent_ns / self.times >= _A_LOOK_NS


# What a rank needs to look for a file or a flag, print a line and sleep again; on a busy machine.
_A_LOOK_NS = 1_000_000
_BACK_TO_WAIT_NS = 30_000
# Of a core: what a process below a rank uses that only waits, or beats.
_IDLE_BELOW = 0.002
_THREAD_WORKS = 0.05


def beat_of(pid: int, looks: Sequence[tuple[Pulse, ...]]) -> Beat | None:
    """Return what happened between the looks at one rank; None where a look brought no counts."""
    if len(looks) < 2 or any(len(pulses) < 2 or pid not in pulses[-1].threads for pulses in looks):
        return None
    gaps = [(before[-1], after[0]) for before, after in zip(looks, looks[1:])]
    if any(pid not in after.threads for _, after in gaps):
        return None
    seconds = max(sum(after.at_s - before.at_s for before, after in gaps), 0.05)
    own = [_between(before.threads[pid], after.threads[pid]) for before, after in gaps]
    last = looks[-1][0]
    calls = [pulses[0].threads[pid] for pulses in looks if pid in pulses[0].threads]
    return Beat(
        seconds,
        sum(spent_ns for spent_ns, _ in own),
        sum(times for _, times in own),
        sum(after.bytes - before.bytes for before, after in gaps),
        all(thread.call == "u" for thread in calls),
        last.threads[pid].period_s,
        last.sleeps_s,
        frozenset(number for number in last.threads if number != pid and _is_woken(number, gaps, seconds)),
        _below_works(looks[0][0], gaps, seconds),
        _cpu_beside(pid, gaps) / seconds,
        any(_works_at_a_time(number, gaps) for number in last.threads if number != pid),
    )


def _between(before: Thread, after: Thread) -> tuple[int, int]:
    """Return what a thread did between two looks, in nanoseconds and times.

    Once it may come back late to the wait from which py-spy took it.
    """
    spent_ns, times = after.spent_ns - before.spent_ns, after.times - before.times
    return (0, 0) if times == 1 and spent_ns <= _BACK_TO_WAIT_NS else (spent_ns, times)


def _cpu_beside(pid: int, gaps: Sequence[tuple[Pulse, Pulse]]) -> float:
    """Return the processor time of all but the main thread."""
    whole = sum(after.spent_s - before.spent_s for before, after in gaps)
    return whole - sum(after.threads[pid].spent_ns - before.threads[pid].spent_ns for before, after in gaps) / 1e9


def _of_thread(number: int, gaps: Sequence[tuple[Pulse, Pulse]]) -> list[tuple[Thread, Thread]]:
    return [
        (before.threads[number], after.threads[number])
        for before, after in gaps
        if number in before.threads and number in after.threads
    ]


def _works_at_a_time(number: int, gaps: Sequence[tuple[Pulse, Pulse]]) -> bool:
    done = [_between(before, after) for before, after in _of_thread(number, gaps)]
    times = sum(times for _, times in done)
    return times > 0 and sum(spent_ns for spent_ns, _ in done) >= _A_LOOK_NS * times


def _is_woken(number: int, gaps: Sequence[tuple[Pulse, Pulse]], seconds: float) -> bool:
    pairs = _of_thread(number, gaps)
    spent_ns = sum(after.spent_ns - before.spent_ns for before, after in pairs)
    times = sum(after.times - before.times for before, after in pairs)
    comes = all(thread.call in {"u", "r"} for pair in pairs for thread in pair)
    # A thread that py-spy held may be back at its wait only a moment after the look.
    return spent_ns / 1e9 / seconds >= _THREAD_WORKS or (comes and times > len(gaps))


def _below_works(first: Pulse, gaps: Sequence[tuple[Pulse, Pulse]], seconds: float) -> bool:
    last = gaps[-1][1]
    if last.below.keys() - first.below.keys():
        return True
    for number, now in last.below.items():
        before = first.below[number]
        spent_ns, times = now.spent_ns - before.spent_ns, now.times - before.times
        if now.bytes > before.bytes or spent_ns / 1e9 / seconds > _IDLE_BELOW or spent_ns > _A_LOOK_NS * max(times, 1):
            return True
    return False
