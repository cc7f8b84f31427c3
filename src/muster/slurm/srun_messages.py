"""What srun says on stderr about the tasks of a step: who failed first, how, and whether somebody else ended it.

Read from the text alone. srun reports the end of tasks in the order in which it hears of it, and only the first
report is a cause: after it, srun itself ends the rest with SIGTERM and SIGKILL.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from muster.model.failure import Failure, FailureKind, exit_words
from muster.units import whole_number

_TASKS = re.compile(r"^srun: error: (?P<host>[^\s:]+): tasks? (?P<tasks>[0-9][0-9,-]*): (?P<what>.+)$")
# Slurm 22.05 says 0 for a step whose other tasks ended well.
_NOT_STARTED = re.compile(r"^srun: error: tasks? (?P<tasks>[0-9][0-9,-]*) launch failed: (?P<what>.+)$")
_EXIT_CODE = re.compile(r"Exited with exit code (?P<code>[0-9]{1,9})")
_WAITS = re.compile(r"srun: (?:Job \d+ )?[Ss]tep creation temporarily disabled, retrying \(Requested nodes are busy\)")
_CORE = re.compile(r"\s*\(core dumped\)\s*$")
# strsignal()'s words, which srun uses, and its own for the kernel's out-of-memory killer.
_SIGNAL_OF = {
    **{words: number for number in signal.valid_signals() if (words := signal.strsignal(number))},
    "Out Of Memory": signal.SIGKILL,
}

_SIGTERM = 128 + signal.SIGTERM
_SLURM_ENDED = re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+ DUE TO ")


class _Outside(NamedTuple):
    """A line that tells of an end from outside the tasks."""

    pattern: re.Pattern[str]
    sentence: str
    kind: FailureKind = FailureKind.OUTSIDE
    names_host: bool = True
    """Whether the host in the line is where it happened: Slurm's step daemon tells of the node that it is on."""


# Something other than a task's own end stopped the step. First match wins.
_FROM_OUTSIDE = (
    _Outside(
        re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT \S+ DUE TO TIME LIMIT"),
        "the time limit was reached",
    ),
    _Outside(
        re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT \S+ DUE TO PREEMPTION"),
        "a more important job took its nodes",
    ),
    _Outside(
        re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT \S+ DUE TO NODE FAILURE"),
        "a node failed",
        FailureKind.NODE,
        names_host=False,
    ),
    _Outside(
        re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+ DUE TO JOB REQUEUE"),
        "it was put back into the queue",
    ),
    _Outside(re.compile(r"^(?:srun|salloc): error: Node failure on (?P<host>\S+)"), "{host} failed", FailureKind.NODE),
    _Outside(
        re.compile(r"^srun: Job step aborted: Waiting up to"),
        "the step was ended from outside: scancel, a time limit or a failed node",
        FailureKind.ABORTED,
    ),
    _Outside(
        re.compile(r"^srun: error: (?:Unable to create step|Unable to confirm allocation)"),
        "the step could not be made",
    ),
    _Outside(re.compile(r"^srun: error: .*launch failed"), "a node could not start its tasks"),
    _Outside(
        re.compile(r"^srun: error: Only allocated [0-9]+ nodes asked for [0-9]+"),
        "the step asked for more nodes than the job has",
    ),
    _Outside(
        re.compile(r"^srun: error: .*(?:Socket timed out|Unable to contact slurm controller)"),
        "the controller did not answer",
    ),
)


class Ending(msgspec.Struct, frozen=True):
    """Some tasks of one host that ended the same way, as srun reported them."""

    host: str
    tasks: tuple[int, ...]
    words: str
    """srun's own words: "Exited with exit code 7", "Killed"."""

    status: int | None
    """The exit status that a shell would give, 128 + n for signal n; None where the words are new to us."""

    core_dumped: bool = False


class StepStory(msgspec.Struct, frozen=True):
    """All that srun reported of one step."""

    first: Failure | None
    node: Failure | None = None
    """The failure of a node, wherever it stands: Slurm notices a dead node later than the ranks that talked to it."""


def read_step(lines: Iterable[str]) -> StepStory:
    """Return the story in srun's lines; whatever else stands between them is passed over."""
    first: Failure | None = None
    node: Failure | None = None
    for line in lines:
        ending = _ending(line)
        outside = _outside(line) if ending is None else None
        if outside is not None and outside.kind is FailureKind.NODE and (node is None or node.host is None):
            node = outside  # a later line may name it
        if first is None:
            first = outside if ending is None else _own(ending, line)
        elif (first.kind is FailureKind.ABORTED or first.status == _SIGTERM) and _SLURM_ENDED.search(line):
            first = outside or first  # the end of a task by Slurm's SIGTERM may be heard before the reason
    return StepStory(node if first is not None and first.kind is FailureKind.NODE else first, node)


def waits_for_other_step(text: str) -> bool:
    """Return whether srun says that the step waits, as others of its job hold what it needs. 22.05 to 26.05."""
    return bool(_WAITS.search(text))


def _ending(line: str) -> Ending | None:
    match = _TASKS.match(line.rstrip("\r\n"))
    tasks = numbers_in(match["tasks"]) if match else None
    if match is None or tasks is None:
        return None
    words = match["what"].strip()
    bare = _CORE.sub("", words)
    code = _EXIT_CODE.match(bare)
    number = _SIGNAL_OF.get(bare)
    status = int(code["code"]) if code else None if number is None else 128 + number
    return Ending(match["host"], tasks, words, status, core_dumped=bare != words)


def _own(ending: Ending, line: str) -> Failure | None:
    if ending.status == 0:
        return None
    is_plural = len(ending.tasks) > 1
    subject = f"rank{'s' if is_plural else ''} {_spelled(ending.tasks)} on {ending.host}"
    ending_words = ending.words if ending.status is None else exit_words(ending.status)
    if ending.words.startswith("Out Of Memory"):
        ending_words = "ended by the kernel: more memory than the job has"
    core_note = ", core dumped" if ending.core_dumped else ""
    how = f"{ending_words}{core_note}"
    return Failure(f"{subject}: {how}", ending.host, ending.tasks, ending.status, line.strip(), ending=how)


def _outside(line: str) -> Failure | None:
    not_started = _NOT_STARTED.match(line.rstrip("\r\n"))
    if not_started and (tasks := numbers_in(not_started["tasks"])):
        words = f"not started by srun: {not_started['what'].strip()}"
        subject = f"rank{'s' * (len(tasks) > 1)} {_spelled(tasks)}"
        return Failure(f"{subject}: {words}", None, tasks, 1, line.strip(), ending=words)
    for row in _FROM_OUTSIDE:
        match = row.pattern.search(line)
        if match:
            host = match.groupdict().get("host")
            sentence = row.sentence.format(host=host)
            return Failure(sentence, host if row.names_host else None, (), None, line.strip(), row.kind)
    return None


def numbers_in(text: str) -> tuple[int, ...] | None:
    """Return the numbers of "0,2-3"; None where the text is no such list."""
    numbers: list[int] = []
    for item in text.split(","):
        low, dash, high = item.partition("-")
        first, last = whole_number(low), whole_number(high if dash else low)
        if first is None or last is None or last - first > 1_000_000:
            return None
        numbers.extend(range(first, last + 1))
    return tuple(numbers)


def _spelled(tasks: tuple[int, ...]) -> str:
    """Return a few ranks by number, many by their count."""
    spelled_tasks = ", ".join(map(str, tasks[:4]))
    return spelled_tasks if len(tasks) <= 4 else f"{spelled_tasks} and {len(tasks) - 4} more"
