"""What the stub programs share: start some processes here, label their lines, end them together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def without_flags(words: Sequence[str], with_value: Sequence[str] = ()) -> tuple[Sequence[str], Sequence[str]]:
    """(the flags, the command): the command begins at the first word that is no flag and no flag's value."""
    index = 0
    while words[index].startswith("-"):
        index += 2 if words[index] in with_value else 1
    return words[:index], words[index:]


def value_of(flags: Sequence[str], name: str, default: str = "") -> str:
    """The value of --name=VALUE, or of -name VALUE."""
    for index, word in enumerate(flags):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(flags):
            return flags[index + 1]
    return default


def end_all(tasks: Sequence[Any]) -> None:
    """SIGTERM to those that still run; Popen's own way would wait for them."""
    for task in tasks:
        if task.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(task.pid, signal.SIGTERM)


def run_tasks(
    environments: Sequence[Mapping[str, str]],
    command: Sequence[str],
    *,
    label: str = "",
    stdin_of: int | None = None,
    ended: Callable[[int, int, list[Any]], None] | None = None,
) -> int:
    """Start one task for each environment; the highest status. Only task `stdin_of` reads the standard input."""
    tasks: list[Any] = []
    readers: list[threading.Thread] = []
    lock = threading.Lock()
    for rank, more in enumerate(environments):
        stdin = None if stdin_of in (None, rank) else subprocess.DEVNULL
        out = subprocess.PIPE if label else None
        tasks.append(subprocess.Popen(command, env={**os.environ, **more}, stdin=stdin, stdout=out))

    def end(*_: object) -> None:
        end_all(tasks)

    def pass_on(rank: int, task: Any) -> None:
        for line in task.stdout:
            with lock:
                sys.stdout.buffer.write(label.format(rank=rank).encode() + line)
                sys.stdout.buffer.flush()

    signal.signal(signal.SIGTERM, end)
    for rank, task in enumerate(tasks if label else ()):
        readers.append(threading.Thread(target=pass_on, args=(rank, task)))
        readers[-1].start()
    statuses = [-1] * len(tasks)
    while -1 in statuses:
        pid, state = os.wait()
        for rank, task in enumerate(tasks):
            if task.pid == pid:
                code = os.waitstatus_to_exitcode(state)
                statuses[rank] = task.returncode = 128 - code if code < 0 else code
                if code and ended is not None:
                    ended(rank, code, tasks)
    for reader in readers:
        reader.join()
    return max(statuses)
