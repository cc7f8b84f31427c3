"""The lab of a rehearsal, and the programs that are run in it. It is gone at the end, however that comes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING

import msgspec

from muster.act.keep import script_to_pass
from muster.follow.hang_report import HANG_REPORT
from muster.launchers import launcher_named
from muster.model.pieces import Pieces
from muster.model.plan import Plan
from muster.older import zip_equal
from muster.plan.secret import variables_to_hand_over
from muster.render.script import job_script
from muster.runner import DEVNULL, PIPE, ProgramResult, own_command, run, shell_status, start
from muster.slurm.allocation import hold_nodes
from muster.slurm.submit import ask_whether_taken
from muster.slurm.variables import scheduler_environment
from muster_lab import labs
from muster_lab.first import FirstProcess
from muster_lab.registry import LabRegistry
from muster_lab.spec import LabSpec

if TYPE_CHECKING:
    from muster.runner import Process

_ORDINARY_USER = "alice"
_PROBE_PATIENCE_S = 180.0
_CHUNK_BYTES = 1 << 16
_KEPT_BYTES = 1 << 20
# A process that left its rank's group may hold the pipes for ever.
_DRAIN_S = 5.0
_LOOK_S = 2.0
_PAUSE_S = 0.05


class Performance(msgspec.Struct, frozen=True):
    """How the command itself ended, and the end of what its ranks and their launcher wrote."""

    status: int
    output: str
    errors: str
    hang: str | None = None
    """How its ranks hung, where they did and were ended for it."""


class Written(msgspec.Struct, frozen=True):
    """A file that the job would have written; `size` None: that it would have removed."""

    path: str
    size: int | None


class RehearsalLab(msgspec.Struct, frozen=True):
    """A lab that is up."""

    name: str
    environment: Mapping[str, str]

    def accepts(self, script: str) -> ProgramResult:
        """Return what the lab's sbatch says to the script of an ordinary user: root is bound by no rule."""
        words = self._inside(*ask_whether_taken().argv, user=_ORDINARY_USER)
        return run(words, env=self.environment, cwd="/", stdin=script, timeout_s=60)

    def probe(self, plan: Plan) -> ProgramResult:
        """Run a plan whose output is read."""
        with script_to_pass(job_script(plan)) as (memory, words):
            return run(
                self._job(plan, words),
                env=self._given(plan),
                cwd=plan.working_directory,
                timeout_s=_PROBE_PATIENCE_S,
                pass_fds=[memory],
            )

    def perform(self, plan: Plan, whole: Plan) -> Performance:
        """Run a plan over the allocation that `whole` asks for; pass its output on and return the end of it."""
        known = self._reports() if plan.hang is not None else set()
        in_pieces = plan.label and launcher_named(plan.launcher).labels_pieces
        with script_to_pass(job_script(plan)) as (memory, words):
            # srun opens its stderr again: where that is a file, two places to write at would write over each other.
            process = start(
                self._job(whole, words),
                env=self._given(plan),
                cwd=plan.working_directory,
                stdin=DEVNULL if os.isatty(0) and not _has_controlling_terminal() else None,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[memory],
            )
            output, errors = (_Passed(stream, target, in_pieces=in_pieces) for stream, target in _streams(process))
            status, hang = _status(process, (lambda: self._new_hang(known)) if plan.hang is not None else None)
            return Performance(status, output.text_at_end(), errors.text_at_end(), hang)

    def written(self) -> list[Written]:
        """Return what the job has written in the view of this machine's files, by path."""
        entries = labs.written_files(self.name, self.environment)
        return [Written(str(entry["path"]), entry["size"]) for entry in entries if not _is_report(entry["path"])]

    def _reports(self) -> set[str]:
        """Return the files of hangs that the watches beside the ranks have reported."""
        entries = labs.written_files(self.name, self.environment)
        return {entry["path"] for entry in entries if _is_report(entry["path"]) and entry["size"]}

    def _new_hang(self, known: set[str]) -> str | None:
        """Return the hang of a report that is not one of the known ones."""
        report = next(iter(self._reports() - known), None)
        return None if report is None else labs.read_file(self.name, self.environment, report).strip()

    def _job(self, whole: Plan, words: Sequence[str]) -> list[str]:
        return self._inside(*hold_nodes(whole.directives, *words, quiet=True))

    def _inside(self, *argv: str, user: str | None = None) -> list[str]:
        place = ["--user", user] if user else []
        return [*own_command(), "lab", "exec", "--name", self.name, *place, "--", *argv]

    def _given(self, plan: Plan) -> dict[str, str]:
        return {**scheduler_environment(self.environment), **variables_to_hand_over(plan)}


class _Passed:
    """One stream of the job's, passed on by a thread; its end is kept."""

    def __init__(self, stream: IO[bytes], target: int, *, in_pieces: bool) -> None:
        self._stream, self._target = stream, target
        self._pieces = Pieces() if in_pieces else None
        self._end = b""
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def text_at_end(self) -> str:
        """Return the end of the stream, once the job has ended."""
        self._thread.join(_DRAIN_S)
        return self._end.decode(errors="replace")

    def _pass_on(self) -> None:
        has_reader = True
        while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
            has_reader = self._take(chunk if self._pieces is None else self._pieces.feed(chunk), has_reader=has_reader)
        if self._pieces is not None:
            self._take(self._pieces.end(), has_reader=has_reader)
        self._stream.close()

    def _take(self, chunk: bytes, *, has_reader: bool) -> bool:
        """Keep and write a piece; return whether the next one can be written too."""
        self._end = (self._end + chunk)[-_KEPT_BYTES:]
        rest = memoryview(chunk if has_reader else b"")
        try:
            while rest:
                rest = rest[os.write(self._target, rest) :]
        except OSError:  # a full disk, or a reader that has gone: the report is still to come
            return False
        return has_reader


def _streams(process: Process) -> Iterator[tuple[IO[bytes], int]]:
    for stream, target in ((process.stdout, 1), (process.stderr, 2)):
        if stream is not None:
            yield stream, target


def _has_controlling_terminal() -> bool:
    """Return whether salloc can take its terminal: it refuses one that is nobody's controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _is_report(path: str) -> bool:
    """Return whether the watch wrote the file: RUN/hang, in a run directory that nothing else makes here."""
    return Path(path).name == HANG_REPORT and Path(path).parent.parent.name == "muster-runs"


def _status(process: Process, hang_of: Callable[[], str | None] | None) -> tuple[int, str | None]:
    """Wait for the process and return its status; end ranks that hang, and return how."""
    hang, looked = None, time.monotonic()
    try:
        while hang_of is not None and hang is None and process.poll() is None:
            time.sleep(_PAUSE_S)
            if time.monotonic() > looked + _LOOK_S:
                hang, looked = hang_of(), time.monotonic()
        if hang is not None:
            process.send_signal(signal.SIGTERM)
        return shell_status(process.wait()), hang
    except BaseException:
        process.send_signal(signal.SIGTERM)
        raise


@contextmanager
def rehearsal_lab(spec: LabSpec, environment: Mapping[str, str], say: Callable[[str], None]) -> Iterator[RehearsalLab]:
    """Yield the lab, for as long as the block runs: whatever ends this process, SIGKILL too, ends the lab."""
    with _signals_unwind():
        first_process = labs.up_for_now(spec, environment, say)
        try:
            yield RehearsalLab(spec.name, environment)
        finally:
            _take_down(spec.name, first_process, environment)


def _take_down(name: str, first_process: FirstProcess, environment: Mapping[str, str]) -> None:
    """Take the lab down; a second Ctrl-C does not leave half of it."""
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        first_process.end()
        LabRegistry(environment).forget(name)
    finally:
        signal.signal(signal.SIGINT, old_handler)


@contextmanager
def _signals_unwind() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    old_handlers = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip_equal(numbers, old_handlers):
            signal.signal(number, handler)
