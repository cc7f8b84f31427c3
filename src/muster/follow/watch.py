"""The output of a job: which files it lies in, which rank a line is of, and how it is followed while it grows.

Nothing here asks the scheduler. Lines are bytes: a rank may write anything. A line of several ranks' output
begins with its label: srun's and torchrun's "3: ", Open MPI's "[1,3]<stdout>:", MPICH's "[3] ".
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from muster.act.record import written_object
from muster.errors import RequestError, UnknownName
from muster.launchers import known_launcher
from muster.model.pieces import Pieces
from muster.units import whole_number

_LABEL = re.compile(rb"(?: *([0-9]{1,15}): |\[[0-9]+,([0-9]{1,15})\]<std(?:out|err|diag)>:|\[([0-9]{1,15})\] )")
# What the script writes where one file holds the output of all attempts (render/shell/again/attempt.sh).
_BEGINS = re.compile(rb"muster: attempt ([0-9]{1,9}) of this job begins here")
_CHUNK_BYTES = 1 << 18
# A program that writes no line ends must not fill our memory: its line is broken here.
_LONGEST_LINE_BYTES = 1 << 20
_TAIL_BYTES = 1 << 22


class LogFile(msgspec.Struct, frozen=True):
    """One file of a job's output."""

    path: Path
    rank: int | None = None
    """The rank of a line without a label: the one that alone writes the file; None: several do, or the batch script."""

    labelled: bool = True
    """Whether a line that begins like a label is of that rank."""

    attempt: int | None = None
    """The attempt whose lines are meant, of a file that holds those of all; None: all are."""

    role: str = ""
    """The role whose ranks write it, in a job of several programs."""

    def line(self, raw: bytes) -> OutputLine:
        """Return the line as what it is: of a rank, or of nobody."""
        match = _LABEL.match(raw) if self.labelled else None
        if match is None:
            return OutputLine(self.rank, raw, labelled=False, task=self.task, role=self.role)
        rank = int(next(filter(None, match.groups())))
        return OutputLine(rank, raw[match.end() :], labelled=True, label=match[0], task=self.task, role=self.role)

    def label_length(self, raw: bytes) -> int:
        """Return how long the label of a line is; 0 where the line has none."""
        match = _LABEL.match(raw) if self.labelled else None
        return 0 if match is None else match.end()

    @property
    def task(self) -> str | None:
        """Return the task of an array whose folder holds the file."""
        folder = self.path.parent if self.path.parent.name == "logs" else self.path.parent.parent
        name = folder.parent.name
        return name.removeprefix("task-") if folder.name == "logs" and name.startswith("task-") else None

    def means(self, raw: bytes, current: list[int]) -> bool:
        """Return whether a line belongs to `self.attempt`; `current[0]` is the attempt of the lines before it."""
        if self.attempt is None:
            return True
        begins = _BEGINS.match(raw)
        if begins is not None:
            current[0] = int(begins[1])
        return begins is None and current[0] == self.attempt


class OutputLine(msgspec.Struct, frozen=True):
    """One line, without its line end."""

    rank: int | None
    text: bytes
    labelled: bool
    label: bytes = b""
    task: str | None = None
    """Of an array: the task that wrote it."""

    role: str = ""
    """Of a job of several programs: the role that wrote it."""

    def merged(self) -> bytes:
        """Return the line as it stands among the lines of other ranks."""
        if self.role:
            return b"%s%s: %s" % (self.role.encode(), b"" if self.rank is None else b".%d" % self.rank, self.text)
        return self.label + self.text if self.labelled or self.rank is None else b"%d: %s" % (self.rank, self.text)


class JobOutput(msgspec.Struct, frozen=True):
    """Where a job's output lies: the logs of a run directory, and files named by the job."""

    folder: Path | None
    named: tuple[Path, ...] = ()
    labelled: bool = True
    ranks: int | None = None
    a_file_each: bool = False
    """Whether each rank has a file of its own, NODE.RANK.log."""

    launcher: str | None = None
    """What started the ranks, for a run of Muster's."""

    attempt: int | None = None
    """Which run of a job that was put back into the queue; None: the last there is."""

    every_attempt: bool = False
    """Whether the files of all attempts are meant, each attempt after the one before."""

    roles: tuple[tuple[str, JobOutput], ...] = ()
    """Of a job of several programs: the output of each role, by its name."""

    def files(self) -> list[LogFile]:
        """Return the files that are there now.

        The batch script's own is the last, as its end tells of the job's end.
        """
        files = [replace(file, role=name) for name, output in self.roles for file in output.files()]
        if self.folder is not None:
            files += [self._of_run(path) for path in sorted(self._logs(), key=_in_order)]
        named_files = (self._of_run(path) for path in self.named if path.is_file())
        return [*files, *(replace(file, attempt=self.attempt) for file in named_files)]

    def _logs(self) -> Iterator[Path]:
        if self.folder is None:
            return
        for folder in (self.folder, *self.folder.parent.glob("task-*/logs")):  # of an array
            if self.every_attempt:
                yield from (*folder.glob("*.log"), *folder.glob("attempt-*/*.log"))
            else:
                yield from self._attempt_in(folder).glob("*.log")

    def _attempt_in(self, folder: Path) -> Path:
        """Return the logs of the run that is meant: the first has no folder of its own."""
        if self.attempt is not None:
            return folder / f"attempt-{self.attempt}" if self.attempt > 1 else folder
        numbers = [path.name.removeprefix("attempt-") for path in folder.glob("attempt-*")]
        last = max((int(number) for number in numbers if number.isdigit()), default=1)
        return folder / f"attempt-{last}" if last > 1 else folder

    def _of_run(self, path: Path) -> LogFile:
        host, dot, rank = path.stem.rpartition(".")
        in_run = path not in self.named
        if in_run and path.stem == "batch":
            return LogFile(path, labelled=False)
        if in_run and self.a_file_each and dot and host and (number := whole_number(rank)) is not None:
            return LogFile(path, rank=number, labelled=self.labelled)
        # One rank alone needs no label.
        return LogFile(path, rank=0 if in_run and self.ranks == 1 else None, labelled=self.labelled)

    def of_role(self, name: str) -> JobOutput:
        """Return the output of one role alone."""
        outputs = dict(self.roles)
        if not outputs:
            raise RequestError("the job has no roles: it is one program", hint="omit --role")
        if name not in outputs:
            raise UnknownName("role", name, outputs)
        return replace(outputs[name], every_attempt=self.every_attempt)

    def check_rank(self, rank: int) -> None:
        """Refuse a rank that the job does not have, or that cannot be told from the others."""
        if self.roles:
            names = ", ".join(name for name, _ in self.roles)
            raise RequestError(f"each role of the job has a rank {rank}", hint=f"--role NAME --rank {rank}: {names}")
        if self.ranks is not None and not 0 <= rank < self.ranks:
            raise RequestError(f"the job has no rank {rank}", hint=f"its ranks are 0 to {self.ranks - 1}")
        if not self.labelled and not self.a_file_each and self.ranks != 1:
            raise RequestError("the lines of this job carry no rank", hint="omit --no-label when it is submitted again")


def output_of_run(
    directory: Path, moved_paths: Sequence[Path] = (), task: str | None = None, attempt: int | None = None
) -> JobOutput:
    """Return the output of a run of Muster's, as its plan says; `moved` are the files that its -o and -e named.

    `task` is one of an array: it has a directory of its own. Without it all of them are shown.
    """
    logs = directory / "logs" if task is None else directory / f"task-{task}" / "logs"
    plan = written_object(directory / "plan.json")
    try:
        # The ranks of one row, where several rows share the job.
        shape = (plan.get("pack") or plan)["shape"]
        ranks = int(shape["nodes"]) * int(shape["ntasks_per_node"])
        # Where srun knows agents alone, a file each is an agent's.
        launcher = known_launcher(str(plan["launcher"]))
        has_rank_files = plan["output"] == "rank-files" and launcher is not None and launcher.rank_tasks
        names = [str(role["name"]) for role in plan.get("roles", ())]
        roles = tuple((name, output_of_run(directory / "roles" / name)) for name in names)
        return JobOutput(
            logs, tuple(moved_paths), bool(plan["label"]), ranks, has_rank_files, plan["launcher"], attempt, roles=roles
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return JobOutput(logs, tuple(moved_paths), attempt=attempt)


def output_of_files(paths: Sequence[Path]) -> JobOutput:
    """Return the output of a job that is not ours: the files that Slurm writes for it."""
    return JobOutput(None, tuple(dict.fromkeys(paths)))


class _Open(msgspec.Struct):
    """How far one file has been read."""

    file: LogFile
    offset: int = 0
    inode: int | None = None
    rest: bytearray = msgspec.field(default_factory=bytearray)
    attempt: list[int] = msgspec.field(default_factory=lambda: [1])
    pieces: Pieces = msgspec.field(default_factory=Pieces)


class Follower(msgspec.Struct):
    """Reads what is new in a job's output, file by file: whole lines, in order within a file, nothing twice.

    A file that was made again or cut (a job that was requeued) is read from its beginning.
    """

    output: JobOutput
    _seen: dict[Path, _Open] = msgspec.field(default_factory=dict)

    def new_lines(self, *, final: bool = False, rank: int | None = None) -> Iterator[OutputLine]:
        """Yield the lines since the last call; `final`: also a last line that was never ended.

        With `rank`, files in which that rank has no line are left out: of 10,000 ranks one is found at once.
        """
        for file in self.output.files():
            if rank is not None and not _may_hold(file, rank):
                continue
            state = self._seen.setdefault(file.path, _Open(file))
            state.file = file
            yield from _read_on(state)
            if final and state.rest:
                yield from _taken(state)
            if final:
                yield from map(file.line, state.pieces.end().splitlines())


def _may_hold(file: LogFile, rank: int, *, at_end: bool = False) -> bool:
    """Return whether a line of a rank can stand in a file, or in its last part: a label has the rank's number in it."""
    if file.rank is not None or not file.labelled:
        return file.rank == rank
    number, end = str(rank).encode(), b""
    try:
        with file.path.open("rb") as stream:
            if at_end:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            while chunk := stream.read(_CHUNK_BYTES):
                if number in end + chunk:
                    return True
                end = chunk[1 - len(number) :] if len(number) > 1 else b""
    except OSError:
        return True  # who reads it says why it cannot be read
    return False


def _read_on(state: _Open) -> Iterator[OutputLine]:
    try:
        with state.file.path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_ino != state.inode or status.st_size < state.offset:
                state.inode, state.offset, state.attempt, state.pieces = status.st_ino, 0, [1], Pieces()
                state.rest.clear()
            stream.seek(state.offset)
            while chunk := stream.read(_CHUNK_BYTES):
                state.offset += len(chunk)
                yield from _lines_in(state, chunk)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        message = f"{state.file.path} cannot be read by you"
        raise RequestError(message, hint="only the job's owner reads its output, unless they open it") from None
    except OSError as error:  # of a file system that is away: there may be lines
        message = f"{state.file.path} cannot be read: {error.strerror}"
        raise RequestError(message, hint="try again, or on another host: its file system may not answer here") from None


def _lines_in(state: _Open, chunk: bytes) -> Iterator[OutputLine]:
    *whole, rest = chunk.split(b"\n")
    for raw in whole:
        state.rest += raw
        yield from _taken(state)
    state.rest += rest
    if len(state.rest) > _LONGEST_LINE_BYTES:
        yield from _taken(state)


def _taken(state: _Open) -> Iterator[OutputLine]:
    raw = bytes(state.rest)
    state.rest.clear()
    if state.file.means(raw, state.attempt):
        yield state.file.line(state.pieces.feed(raw + b"\n")[:-1] if state.file.labelled else raw)


def last_lines(output: JobOutput, *, rank: int | None, count: int) -> list[OutputLine]:
    """Return the last `count` lines of `rank`, or of everything; only the end of long files is looked at."""
    lines: deque[OutputLine] = deque(maxlen=count)
    for file in output.files():
        if rank is not None and not _may_hold(file, rank, at_end=True):
            continue
        lines.extend(line for line in _tail(file) if rank is None or line.rank == rank)
    return list(lines)


def _tail(file: LogFile) -> Iterator[OutputLine]:
    try:
        with file.path.open("rb") as stream:
            yield from (file.line(raw) for raw in lines_at_end(file, stream))
    except OSError:
        return


def lines_at_end(file: LogFile, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of the last part of a file that are of the attempt that is meant."""
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(0, size - _TAIL_BYTES))
    current = [1]
    if size > _TAIL_BYTES:
        stream.readline()
        current = [file.attempt or 1]
    pieces = Pieces()
    for raw in stream:
        if file.means(raw, current):
            line = raw.rstrip(b"\n")
            yield pieces.feed(line + b"\n")[:-1] if file.labelled else line
    yield from pieces.end().splitlines()


def _in_order(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]], bool, list[tuple[int, str]]]:
    """Return a key that sorts node2 before node10, the batch script's file last, and attempts and tasks in order."""
    first = path.parent.name == "logs"
    logs, attempt = (path.parent, "") if first else (path.parent.parent, path.parent.name)
    return _by_number(logs.parent.name), _by_number(attempt), path.stem == "batch", _by_number(path.name)


def _by_number(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (0, part) for part in re.split(r"([0-9]{1,15})", name, flags=re.ASCII)
    ]
