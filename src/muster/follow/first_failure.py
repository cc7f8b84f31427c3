"""The rank that failed first, from what its launcher and Slurm left in a job's output.

A launcher reads its own report (`launchers/`); srun tells the ends of its tasks in messages of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from muster.follow.attempt_list import EndCause, read_ends
from muster.follow.last_words import LINES, last_words
from muster.follow.roles import failed_role, of_role
from muster.follow.signatures import tells_of_peer
from muster.follow.watch import JobOutput, LogFile, OutputLine, lines_at_end
from muster.launchers import by_agents_first, known_launcher
from muster.launchers.base import Launcher
from muster.model.failure import KILLED_STATUS, Failure, FailureKind, of_agent
from muster.slurm.srun_messages import numbers_in, read_step

# What the script says where a launcher said 0, and not all ranks did (render/shell/step/count_ends.sh).
_UNSAID = re.compile(
    r"^muster: (?P<sentence>how (?:ranks? (?P<ranks>[0-9,-]+)|a rank|the agent) on (?P<host>\S+) ended is not known"
    r"(?P<lost>; Slurm calls .+)?)$"
)

# The shell around a rank writes it.
_OF_THE_SHELL = b"muster: rank "
_FEW = 1000
_SIGTERM = 143
# An agent that lost the store ends with 1, one that Slurm ended by a signal.
_OF_A_LOST_NODE = {1, _SIGTERM, KILLED_STATUS}
_OF_OTHERS = {0, _SIGTERM, KILLED_STATUS, None}
_MOST_RANKS = 64
_ERROR = re.compile(r"(?:\[rank\d+\]: )?(?:\w+\.)*((?!SIGTERM|Signal)\w+(?:Error|Exception))(?::|$)")
_ENDED_BY_OTHERS = {FailureKind.OUTSIDE, FailureKind.ABORTED}


def first_failure(output: JobOutput) -> Failure | None:
    """Return what went wrong first, as exactly as the launcher tells it; None where nothing tells of a failure.

    A job that is not Muster's may have any launcher: the report of each is looked for.
    """
    if output.roles and output.folder is not None:
        return _of_roles(output, output.folder.parent)
    texts = [_Unlabelled(file) for file in output.files()]
    return _first_cause(texts, known_launcher(output.launcher), lambda failure: last_words(output, failure))


def _first_cause(
    texts: Sequence[Iterable[str]], launcher: Launcher | None, words_of: Callable[[Failure], list[str]]
) -> Failure | None:
    """Return what went wrong first; where the rank's last words tell of another one, what may have ended that."""
    failure = _first_of(texts, launcher)
    if failure is None or not failure.tasks or not tells_of_peer(words_of(failure)):
        return failure
    # The ranks that talked to a dead node end at once; Slurm notices the node later.
    nodes = (node for text in reversed(texts) if (node := read_step(text).node) and node.host != failure.host)
    return next(nodes, None) or (launcher and _before(texts, launcher, words_of)) or failure


def _before(
    texts: Sequence[Iterable[str]], launcher: Launcher, words_of: Callable[[Failure], list[str]]
) -> Failure | None:
    """Return the first failure of a rank whose last words tell of no other rank: of its own end, or of its error.

    A rank that its framework ends slowly, after its error, is heard of later than the ranks that missed it, and may be
    ended with them.
    """
    of_steps = () if launcher.task_of_slurm else (lambda lines: read_step(lines).first,)
    readers = (*of_steps, lambda lines: launcher.first_failure([lines]))
    # An agent's report has several lines.
    pieces = chain(texts, ([line] for text in texts for line in text))
    ends = (end for lines in pieces for read in readers if (end := read(lines)))
    few = [*islice((one for failure in ends for one in _of_each(failure)), _MOST_RANKS)]
    candidates = [(one, words) for one in few if (words := words_of(one)) and not tells_of_peer(words)]
    own = next((one for one, _ in candidates if one.status not in _OF_OTHERS), None)
    errors = (
        _with_error(one, match[1]) for one, words in candidates for line in words if (match := _ERROR.match(line))
    )
    return own or next(errors, None)


def _with_error(failure: Failure, name: str) -> Failure:
    ending = f"{name}, and ended with the others"
    return replace(failure, status=1, ending=ending, sentence=f"rank {failure.tasks[0]} on {failure.host}: {ending}")


def _of_each(failure: Failure) -> Iterator[Failure]:
    """Yield the failure of each rank, where several of a host ended in one way."""
    for rank in failure.tasks:
        yield replace(failure, tasks=(rank,), sentence=f"rank {rank} on {failure.host}: {failure.ending}")


def _of_roles(output: JobOutput, directory: Path) -> Failure | None:
    """Return the failure of the role that ended the job; where the runner could not say which, of any that failed.

    Where a node of the job dies, Slurm ends all roles: that is the failure of the one that wrote the node down, if any.
    """
    failed = failed_role(directory)
    for name in (name for name, _ in output.roles if failed is None or name == failed.name):
        for end in read_ends(directory / "roles" / name):
            if end.kind is EndCause.NODE and end.decision == "end":
                return Failure(f"role {name}, {end.cause}", end.host, (), None, end.cause, FailureKind.NODE, role=name)
    if failed is not None:
        failure = None if failed.is_late else first_failure(output.of_role(failed.name))
        return of_role(failed.name, failure, failed.status, failed.words, is_late=failed.is_late)
    failures = ((name, first_failure(of_one)) for name, of_one in output.roles)
    own = (
        of_role(name, failure, 1, "")
        for name, failure in failures
        if failure is not None and failure.kind not in _ENDED_BY_OTHERS and failure.status != _SIGTERM
    )
    return next(own, None)


def failure_in(text: str, launcher: str) -> Failure | None:
    """Return what went wrong first, by what a launcher and its ranks said on stderr."""
    file = LogFile(Path())
    lines = [file.line(line.encode()) for line in text.splitlines()]
    of_ranks = [line for line in lines if not line.text.startswith(_OF_THE_SHELL)]
    report = [line.text.decode() for line in lines if _is_report(line)]
    return _first_cause(
        [report],
        known_launcher(launcher),
        lambda failure: [line.text.decode() for line in of_ranks if line.rank == failure.tasks[0]][-LINES:],
    )


def _first_of(texts: Sequence[Iterable[str]], launcher: Launcher | None) -> Failure | None:
    if launcher is None:
        return first_in(texts, by_agents_first())
    return first_in(texts, [launcher], launcher.task_of_slurm)


def first_in(texts: Sequence[Iterable[str]], launchers: Iterable[Launcher], task_name: str = "") -> Failure | None:
    """Return the first failure in the texts, of which each is the lines of one file.

    The texts may be gone through several times. The report of each launcher is looked for in turn; where none reports
    a failure, Slurm tells. `task_name` is what a task of Slurm's is, where that is not a rank.
    """
    for launcher in launchers:
        failure = launcher.first_failure(texts)
        if failure is not None:
            return failure if failure.tasks else _unsaid(texts) or _of_node(texts) or failure
    # The batch script's own file is the last, and srun writes there.
    failure = next((failure for text in reversed(texts) if (failure := read_step(text).first)), None)
    if (failure is None or not failure.tasks) and (unsaid := _unsaid(texts)) is not None:
        return unsaid
    if not task_name or failure is None or not failure.tasks:
        return failure
    if failure.status not in _OF_A_LOST_NODE:
        return of_agent(failure, task_name)
    # Agents that lose a dead node's store end at once; of the node itself srun hears later.
    nodes = (node for text in texts if (node := read_step(text).node) and node.host not in {None, failure.host})
    return next(nodes, None) or of_agent(failure, task_name)


def _unsaid(texts: Sequence[Iterable[str]]) -> Failure | None:
    """Return the ranks whose end is not known, where the script counted the ends."""
    matches = (match for text in reversed(texts) for line in text if (match := _UNSAID.match(line)))
    match = next(matches, None)
    if match is None:
        return None
    ranks = numbers_in(match["ranks"] or "") or ()
    kind = FailureKind.NODE if match["lost"] else FailureKind.UNSAID
    return Failure(match["sentence"], match["host"], ranks, None, match[0], kind)


def _of_node(texts: Sequence[Iterable[str]]) -> Failure | None:
    """Return the failure of a node that Slurm names: mpirun's daemons lose each other, and blame either."""
    failures = (read_step(text).first for text in reversed(texts))
    return next(
        (failure for failure in failures if failure is not None and failure.host is not None and not failure.tasks),
        None,
    )


class _Unlabelled(msgspec.Struct, frozen=True):
    """Return the lines of a file that no rank wrote: a launcher's report stands among them."""

    file: LogFile
    few_lines: list[tuple[str, ...]] = msgspec.field(default_factory=list)
    """The lines, once they were read, where they are few: of 10,000 ranks' files each is read once."""

    def __iter__(self) -> Iterator[str]:
        if self.few_lines:
            yield from self.few_lines[0]
            return
        first_lines: list[str] = []
        for line in _lines(self.file):
            if len(first_lines) <= _FEW:
                first_lines.append(line)
            yield line
        if len(first_lines) <= _FEW:
            self.few_lines.append(tuple(first_lines))


def _is_report(line: OutputLine) -> bool:
    """Return whether no rank wrote the line: it has no label, or the shell around the rank wrote it."""
    return not line.labelled or line.text.startswith(_OF_THE_SHELL)


def _lines(file: LogFile) -> Iterator[str]:
    """Yield the last lines of the file without the labels of ranks, whose own words are not a launcher's report."""
    try:
        with Path(file.path).open("rb") as stream:
            for raw in lines_at_end(file, stream):
                end = file.label_length(raw)
                if not end or raw.startswith(_OF_THE_SHELL, end):
                    yield raw[end:].rstrip(b"\r").decode(errors="replace")
    except OSError:
        return
