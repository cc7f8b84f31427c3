"""How a rank failed, as a value that the launchers and Slurm's own messages are both read into. Runs nothing."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.older import StrEnum

KILLED_STATUS = 128 + signal.SIGKILL
_CRASHED_HINT = "the program itself crashed; its Python line stands in the output with --env PYTHONFAULTHANDLER=1"
# What to do about a status that says more than that something failed.
_HINTS = {
    126: "chmod +x FILE, or name its interpreter: python FILE",
    127: "its name may be wrong, or the nodes do not have it: a path, --venv or --module brings it",
    KILLED_STATUS: "SIGKILL comes from outside the program: most often from the kernel when memory is used up; "
    "more --mem, fewer ranks on a node, or less in memory",
    **dict.fromkeys(
        (128 + each for each in (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)), _CRASHED_HINT
    ),
}
_OF_A_SHELL = {126: ": not executable", 127: ": no such program"}


class FailureKind(StrEnum):
    """What failed."""

    TASKS = "tasks"  # tasks of one host, by themselves
    AGENT = "agent"  # the program on one host that starts the ranks there
    NODE = "node"  # a node; `host` is None where it is not said which
    UNSAID = "unsaid"  # ranks, or an agent, on a host, whose end is not known
    ABORTED = "aborted"  # somebody ended the step, and it is not said who
    LATE = "late"  # a role that was not ready in time, and was ended
    OUTSIDE = "outside"  # something else outside the tasks


class Failure(msgspec.Struct, frozen=True):
    """The first thing that went wrong: tasks of a host by themselves, or something from outside the tasks."""

    sentence: str
    host: str | None
    tasks: tuple[int, ...]
    status: int | None
    line: str
    """The line that says it."""

    kind: FailureKind = FailureKind.TASKS
    ending: str = ""
    """How the tasks ended, in words: the sentence without its subject."""

    role: str = ""
    """The role whose ranks they are, in a job of several programs."""

    def as_json(self) -> dict[str, Any]:
        """Return it under stable keys, documented in docs/reference/json.md."""
        return {
            "sentence": self.sentence,
            "host": self.host,
            "ranks": list(self.tasks),
            "status": self.status,
            "line": self.line,
            **({"role": self.role} if self.role else {}),
        }


def exit_words(status: int) -> str:
    """Return an exit status in words: "exit status 7", "ended by SIGKILL"; two of them are a shell's own."""
    try:
        return f"ended by {signal.Signals(status - 128).name}"
    except ValueError:
        return f"exit status {status}{_OF_A_SHELL.get(status, '')}"


def hint_of_status(status: int | None) -> str | None:
    """Return what to do about an exit status; None: it says only that something failed."""
    return None if status is None else _HINTS.get(status)


def of_agent(failure: Failure | None, agent: str) -> Failure | None:
    """Return the failure of a task as what it is where that task is an agent: of no rank."""
    if failure is None or not failure.tasks:
        return failure
    place = f" on {failure.host}" if failure.host else ""
    sentence = f"{agent} itself{place}: {failure.ending}"
    return replace(failure, sentence=sentence, tasks=(), kind=FailureKind.AGENT)
