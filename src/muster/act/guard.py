"""A small process that outlives Muster by a moment: where Muster is killed, it ends what Muster had started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from muster.runner import spawn

# It reads what is to be ended until Muster says that all is done; without that word, Muster was killed.
_TEXT: Final = """\
targets= job=
while read -r word value; do
    case $word in
    end) targets="$targets $value" ;;
    ended)
        rest=
        for target in $targets; do [ "$target" = "$value" ] || rest="$rest $target"; done
        targets=$rest
        ;;
    job) job=$value ;;
    done) exit ;;
    esac
done
send() { for target in $targets; do kill -s "$1" -- "$target" && left=1; done; }
send TERM
[ -z "$job" ] || exec scancel "$job"
tenths=$1 left=1
while [ -n "$left" ] && [ "$tenths" -gt 0 ]; do
    sleep 0.1
    tenths=$((tenths - 1)) left=
    send 0
done
send KILL
"""


class Guard:
    """The line to the guard."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _tell(self, word: str) -> None:
        with suppress(BrokenPipeError):  # somebody ended it
            os.write(self._descriptor, f"{word}\n".encode())

    def watch_process(self, pid: int) -> None:
        """Let this process be ended with Muster."""
        self._tell(f"end {pid}")

    def watch_group(self, pid: int) -> None:
        """Let this group of processes be ended with Muster."""
        self._tell(f"end -{pid}")

    def forget(self, pid: int) -> None:
        """Say that a process and its group have ended: the kernel may give its number away."""
        self._tell(f"ended {pid}")
        self._tell(f"ended -{pid}")

    def watch_job(self, job: str) -> None:
        """Let this job of Slurm be given back with Muster's end."""
        self._tell(f"job {job}")

    def finish(self) -> None:
        """Say that nothing is left to be ended."""
        self._tell("done")


@contextmanager
def guarded(environment: Mapping[str, str], grace_s: float) -> Iterator[Guard]:
    """Yield the line to a guard; whoever does not `finish` leaves the ending to it."""
    reader, writer = os.pipe()
    null_descriptor = os.open(os.devnull, os.O_RDWR)
    files = {0: reader, 1: null_descriptor, 2: null_descriptor}
    words = ["sh", "-c", _TEXT, "muster", str(round(grace_s * 10))]
    try:
        pid = spawn(words, environment, files=files, own_group=True)
    finally:
        os.close(reader)
        os.close(null_descriptor)
    try:
        yield Guard(writer)
    finally:
        os.close(writer)
        os.waitpid(pid, 0)
