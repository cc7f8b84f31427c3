"""What the nodes answered → the stack of each rank. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

__all__ = ["Frame", "RankStack", "read_answers", "sort_by_task"]

_HEAD = re.compile(r"^@rank (?P<rank>\d+) (?P<size>\d+) (?P<host>\S+) (?P<pid>\d+) (?P<state>\S+) (?P<waits>\S*)$")


class Frame(msgspec.Struct, frozen=True):
    """One call on a stack."""

    function: str
    file: str
    line: int

    @property
    def name(self) -> str:
        """Return the file's own name."""
        return self.file.rpartition("/")[2]


class RankStack(msgspec.Struct, frozen=True):
    """Where one rank stands."""

    rank: int
    size: int
    host: str
    pid: int
    state: str
    """The kernel's letter: R runs, S sleeps, D waits for a file system, T is stopped."""

    frames: tuple[Frame, ...] = ()
    """Of the main thread, the innermost first."""

    threads: tuple[tuple[str, tuple[Frame, ...]], ...] = ()
    trouble: str | None = None
    """Why there is no stack."""


def read_answers(text: str) -> tuple[RankStack, ...]:
    """Return the stacks in what the nodes wrote, by rank."""
    return tuple(sorted(_stacks(text), key=lambda stack: (stack.rank, stack.host, stack.pid)))


def sort_by_task(text: str) -> str:
    """Return the lines of `srun --label`, task after task: nodes answer at the same time, line by line."""
    by_task: dict[str, list[str]] = {}
    for line in text.splitlines():
        task, colon, rest = line.partition(": ")
        if colon and task.strip().isdigit():
            by_task.setdefault(task.strip(), []).append(rest)
        elif task.rstrip(":").strip().isdigit():
            by_task.setdefault(task.rstrip(":").strip(), []).append("")
    return "".join(f"{line}\n" for lines in by_task.values() for line in lines)


def _stacks(text: str) -> Iterator[RankStack]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in text.splitlines():
        if match := _HEAD.match(line):
            head, body = match, []
        elif line == "@end" and head is not None:
            yield _stack(head, "\n".join(body))
            head = None
        else:
            body.append(line)


def _stack(head: re.Match[str], body: str) -> RankStack:
    bare = RankStack(int(head["rank"]), int(head["size"]), head["host"], int(head["pid"]), head["state"])
    begin = body.find("[")
    try:
        document = json.loads(body[begin:]) if begin >= 0 else None
    except json.JSONDecodeError:
        document = None
    if not isinstance(document, list) or not document:
        return msgspec.structs.replace(bare, trouble=_trouble(body))
    threads = [(str(thread.get("thread_name") or "thread"), _frames(thread)) for thread in document]
    main = next((frames for name, frames in threads if name == "MainThread"), threads[0][1])
    return msgspec.structs.replace(bare, frames=main, threads=tuple(threads))


def _frames(thread: dict[str, Any]) -> tuple[Frame, ...]:
    return tuple(
        Frame(str(frame["name"]), str(frame["filename"]), int(frame["line"])) for frame in thread.get("frames", ())
    )


def _trouble(body: str) -> str:
    """Return one line that says why py-spy gave nothing."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    if "Operation not permitted" in body or "Permission denied" in body or "EPERM" in body:
        return "the kernel forbids to look into the process"
    return lines[-1] if lines else "py-spy did not answer within 20 s"
