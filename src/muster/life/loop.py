"""The loop of a program that steers a job: what threads and signals ask for is done by one thread, in turn.

Standard library only, Python 3.6.
"""

import os
import select
import signal
from collections import deque
from threading import Thread
from typing import Any, Callable, Deque, Iterable, Optional

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that tell a job to end."""


_CHUNK_BYTES = 1 << 16


def start_aside(act: Callable[..., Any], *words: Any) -> Thread:
    """Start a thread that does something; the end of the program does not wait for it."""
    thread = Thread(target=act, args=words, daemon=True)
    thread.start()
    return thread


class Loop:
    """Takes in turn what was posted, and the lines that attempts tell; `status` ends it."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        for end in (self.reader, self.writer):
            os.set_blocking(end, False)
        self.posted: Deque[Callable[[], None]] = deque()
        self.rest = b""
        self.status: Optional[int] = None

    def listen(self, numbers: Iterable[int], hear: Callable[[int], None]) -> None:
        """Hear these signals, but not what nohup has ignored."""
        signal.set_wakeup_fd(self.writer)
        for number in numbers:
            if number == signal.SIGUSR1 or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda heard, _: self.post(lambda: hear(heard)))

    def post(self, act: Callable[[], None]) -> None:
        """Have the loop do something: from any thread, and from a handler of a signal."""
        self.posted.append(act)
        try:
            os.write(self.writer, b"\n")
        except OSError:
            pass  # the pipe is full, so the loop wakes up anyway

    def wait(self, patience_s: float) -> None:
        """Wait until something comes, at most so long, and do it."""
        if select.select([self.reader], [], [], patience_s)[0]:
            self.read()
        while self.posted and self.status is None:
            self.attempt("a step of the supervisor", self.posted.popleft())

    def read(self) -> None:
        """Take the lines that attempts have told; signals and threads write only what wakes up."""
        try:
            self.rest += os.read(self.reader, _CHUNK_BYTES)
        except OSError:
            return
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            _, is_told, text = os.fsdecode(line).partition("muster-tells ")
            if is_told:
                self.take(text)

    def take(self, text: str) -> None:
        """Take a line that an attempt has told."""

    def attempt(self, name: str, act: Callable[..., None], *words: Any) -> bool:
        """Return whether it was done; what this host refuses, a process for example, ends no training."""
        try:
            act(*words)
        except (OSError, RuntimeError, ValueError) as error:
            self.say("muster: warning: %s failed on this host: %s" % (name, error))
            return False
        return True

    def say(self, text: str) -> None:
        """Say something in the errors of the job."""
        write(2, text)


def write(descriptor: int, text: str) -> None:
    """Write a line of any bytes, in any locale; a disk that takes nothing more ends no job."""
    try:
        os.write(descriptor, (text + "\n").encode("utf-8", "surrogateescape"))
    except OSError:
        pass
