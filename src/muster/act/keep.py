"""Muster stays beside the script that it has started: it passes the output on, ends it, and gives the nodes back.

The script's shell, or salloc, would tell little: salloc says 0 for a script that was killed, srun writes to a full disk
in silence, and an allocation outlives whoever asked for it. The file is long because both keepers, of a script and of
salloc, share the pumps, the endings and the terminal.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

import msgspec
from msgspec.structs import replace

from muster.act.guard import Guard, guarded
from muster.act.pump import ENDINGS, Form, Pump, Target, listening, pass_on
from muster.errors import MachineLacks
from muster.runner import shell_status, spawn

_WAITS_FOR_STEP = (
    "this run waits: Slurm says that the nodes of the job are busy: another run or step holds them, or a node "
    "is down\n\nhint: squeue --steps --me shows the steps; --srun=--exact for both runs gives each what it asks for, "
    "--srun=--overlap lets both share all"
)
_CHUNK_BYTES = 1 << 16
# Launchers report a failure at the end of what they say.
_REPORT_BYTES = 1 << 18
_LOOK_S = 0.25
# A process that left its rank's group may hold our pipes for ever.
_DRAIN_S = 0.5
_LATE_BYTES = 1 << 22
# Where the script's shell finds what it is handed.
_SCRIPT, _TOLD, _INPUT, _ERRORS = 3, 4, 5, 6

# salloc's own news, which Muster says in its own words.
_NEWS = (
    r"salloc: (?:(?:Pending|Granted) job allocation|job \d+ |Waiting for resource|Nodes .* ready for job"
    r"|Relinquishing job|Job allocation \d+ has been revoked)"
)
_REVOKED = r"salloc: Job allocation \d+ has been revoked"
_JOB = r"salloc: (?:Pending|Granted) job allocation (\d+)"

# What salloc starts: it says that it is there and how the script ended, whatever salloc makes of that.
_WITHIN_SALLOC = f"""\
trap : INT TERM HUP
printf 'started %s %s\\n' "$$" "$SLURM_JOB_NODELIST" >&{_TOLD}
[ "$1" -eq 0 ] || exec <&{_INPUT} {_INPUT}<&-
exec 2>&{_ERRORS} {_ERRORS}>&-
bash -c 'printf "script %s\\n" "$$" >&{_TOLD}; exec bash /dev/fd/{_SCRIPT} {_TOLD}>&-'
muster_status=$?
printf 'ended %s\\n' "$muster_status" >&{_TOLD}
exit "$muster_status"
"""


class Kept(msgspec.Struct, frozen=True):
    """How it ended."""

    status: int
    started: bool
    """Whether the script began: nodes may never have been granted."""

    signal: int | None = None
    """What we were told to end with."""

    job: str | None = None
    unwritten: str | None = None
    """Why the output could not be written."""

    killed: bool = False
    """The script's own shell was killed."""

    report: str = ""
    """The end of what was said on stderr."""

    output: str = ""
    """The end of what was said on stdout."""

    began: float = 0.0
    """When the allocation was asked for, in seconds since 1970."""


_SILENT_S = 15.0
_SILENT = f"salloc has named no job for {_SILENT_S:.0f} s: it waits for an answer of Slurm; Ctrl-C ends the wait"


class KeepSettings(msgspec.Struct, frozen=True):
    """How a script is kept in its allocation."""

    patience_s: float
    """How long a process may take to end after it was told to."""

    say: Callable[[str], None]
    wait_words: Callable[[str], str]
    """Why a job waits, for `say`."""

    steps_of_slurm: bool
    """Whether the ranks are Slurm's own steps, which it asks to end: srun would kill them at once."""

    in_pieces: bool = False
    """Whether the launcher labels pieces of lines."""


class _Lines(Pump):
    """Read what the job's shell reports, line by line."""

    def __init__(self, take_line: Callable[[str], None]) -> None:
        super().__init__(Target(-1))
        self._heard = take_line
        self._rest = b""

    def read(self) -> None:
        chunk = os.read(self.reader, _CHUNK_BYTES)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines.append(self._rest)
        self.open = bool(chunk)
        for line in lines:
            self._heard(line.decode(errors="replace"))


def _forms() -> tuple[Form, Form]:
    """Return what makes whole lines of the pieces that Open MPI labels, for each of the two streams."""
    from muster.model.pieces import Pieces

    return Pieces(), Pieces()


class _Keeper:
    """One script while it runs."""

    def __init__(
        self, patience_s: float, *, in_pieces: bool, take_errors: Callable[[bytes], None] = lambda _: None
    ) -> None:
        forms = _forms() if in_pieces else (None, None)
        self.out = Pump(Target(1), kept_bytes=_REPORT_BYTES, form=forms[0])
        self.errors = Pump(Target(2), kept_bytes=_REPORT_BYTES, form=forms[1], take_chunk=take_errors)
        self.pumps: list[Pump] = [self.out, self.errors]
        self.group: int | None = None
        self.child = 0
        self.child_status: int | None = None
        self.ended: int | None = None
        self.numbers: list[int] = []
        self.told: int | None = None
        self.patience_s = patience_s
        self.kill_at: float | None = None
        self.bytes_at_end: int | None = None
        self.quiet_since = time.monotonic()

    def listening(self) -> AbstractContextManager[int]:
        """Note the signals that come, and yield the descriptor that then wakes the loop."""
        return listening(self.numbers, (*ENDINGS, signal.SIGCHLD))

    def run(self, wake: int, look: Callable[[], None] = lambda: None) -> None:
        """Pass on until the script and its parent have ended, and all that they wrote is written."""
        while not self._is_over():
            if pass_on(self.pumps, wake, (), _LOOK_S):
                self.quiet_since = time.monotonic()
            self._reap()
            self._hear()
            look()
        for pump in (self.out, self.errors):
            pump.finish()

    def _is_over(self) -> bool:
        """Return whether nothing is left to pass on: a slow reader gets all.

        What outlives the script does not count.
        """
        if self.child_status is None or any(pump.target.waits_for_room for pump in self.pumps):
            return False
        if self.bytes_at_end is None:
            self.bytes_at_end = self.out.bytes_read + self.errors.bytes_read
        since = self.out.bytes_read + self.errors.bytes_read - self.bytes_at_end
        is_quiet = time.monotonic() > self.quiet_since + _DRAIN_S or since > _LATE_BYTES
        return is_quiet or all(pump.is_done for pump in self.pumps)

    def _reap(self) -> None:
        if self.child_status is not None:
            return
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            self.child_status = os.waitstatus_to_exitcode(status)
            self.quiet_since = time.monotonic()

    def _hear(self) -> None:
        """End the script when a signal comes, or when nobody takes its output."""
        if self.told is None and self.out.target.error is not None:
            self._tell(signal.SIGPIPE, signal.SIGTERM)
        for number in [number for number in self.numbers if number in ENDINGS]:
            self._tell(number, signal.SIGINT if number == signal.SIGINT and self.group is None else signal.SIGTERM)
        self.numbers.clear()
        if self.kill_at is not None and time.monotonic() > self.kill_at and self.child_status is None:
            self.kill_at = time.monotonic() + self.patience_s
            self._send(signal.SIGKILL)

    def _tell(self, number: int, passed_on: int) -> None:
        self.told = self.told or number
        self._end_in_time()
        self._send(passed_on)

    def _end_in_time(self) -> None:
        self.kill_at = self.kill_at or time.monotonic() + self.patience_s

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.group is not None:
                os.killpg(self.group, number)
            elif self.child_status is None:
                os.kill(self.child, number)

    def kept(self, *, has_started: bool, job: str | None = None, was_killed: bool = False) -> Kept:
        """Return what the launcher reports of the run."""
        error = self.out.target.error
        status = self.ended if self.ended is not None else shell_status(self.child_status or 0)
        if was_killed:
            status = 128 + signal.SIGKILL
        told_signal = self.told
        if isinstance(error, BrokenPipeError) or told_signal in ENDINGS:
            status = 128 + (told_signal or signal.SIGPIPE)
        elif error is not None:
            status = status if told_signal is None and status else 2
        unwritten = error.strerror if error is not None and not isinstance(error, BrokenPipeError) else None
        return Kept(
            status,
            has_started,
            told_signal if told_signal in ENDINGS else None,
            job,
            unwritten,
            was_killed,
            self.errors.end,
            self.out.end,
        )


def keep(
    script: str,
    environment: Mapping[str, str],
    *,
    patience_s: float,
    in_pieces: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Kept:
    """Run the script in a shell of its own, here, and wait for it; what is told to end has `patience_s` to do so.

    `say` is told once that the run waits for the nodes of its job.
    """
    keeper = _Keeper(patience_s, in_pieces=in_pieces, take_errors=_told_of_waiting(say))
    with (
        guarded(environment, patience_s) as guard,
        keeper.listening() as wake,
        _handed_over(script) as memory,
    ):
        files = {1: keeper.out.writer, 2: keeper.errors.writer, _SCRIPT: memory}
        keeper.child = keeper.group = spawn(["bash", f"/dev/fd/{_SCRIPT}"], environment, files=files, own_group=True)
        guard.watch_group(keeper.group)
        _close(keeper.out.writer, keeper.errors.writer)
        with _foreground(keeper.group):
            keeper.run(wake)
        guard.finish()
    return keeper.kept(has_started=True)


def _told_of_waiting(say: Callable[[str], None]) -> Callable[[bytes], None]:
    """Return what reads srun's words, and says once that the run waits for nodes of its own job."""
    is_told = False

    def take(chunk: bytes) -> None:
        nonlocal is_told
        if is_told or b"srun: " not in chunk:
            return
        from muster.slurm.srun_messages import waits_for_other_step

        if waits_for_other_step(chunk.decode(errors="replace")):
            is_told = True
            say(_WAITS_FOR_STEP)

    return take


class _Allocated(_Keeper):
    """One script inside an allocation that salloc holds."""

    def __init__(self, request: KeepSettings, environment: Mapping[str, str], guard: Guard) -> None:
        super().__init__(request.patience_s, in_pieces=request.in_pieces)
        self._guard = guard
        self._asked = request
        self._environment = environment
        self.salloc = _Lines(self._hear_salloc)
        self.shell = _Lines(self._hear_shell)
        self.pumps += [self.salloc, self.shell]
        self.job: str | None = None
        self.started = False
        self.revoked = False
        self.script: int | None = None
        self.refusal: list[str] = []
        self._waits_since = time.monotonic()
        self._ask_at = self._waits_since + 1.0
        self._last_words = ""
        self._is_silence_told = False

    def _hear_salloc(self, line: str) -> None:
        match = re.match(_JOB, line)
        if match:
            self.job = match[1]
            self._guard.watch_job(self.job)
        elif re.match(_REVOKED, line) and self.started and self.ended is None:
            # The script ends with its ranks; where a launcher waits for a lost node, it is ended.
            self.revoked = True
            self._end_in_time()
        elif not re.match(_NEWS, line):
            self.refusal.append(line)
            if self.started:
                os.write(2, f"{line}\n".encode())

    def _hear_shell(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "started":
            self.started = True
            pid, _, nodes = rest.partition(" ")
            self.group = int(pid)
            if self.told is not None:
                self._send(signal.SIGTERM)
            _give_terminal(self.group)
            self._asked.say(f"job {self.job} runs on {nodes}")
        elif word == "script":
            self.script = int(rest)
        elif word == "ended":
            self.ended = int(rest)

    def start(self, words: Sequence[str], environment: Mapping[str, str], files: Mapping[int, int]) -> None:
        self.child = spawn(words, environment, files=files)
        _close(*(pump.writer for pump in self.pumps))
        self._guard.watch_process(self.child)

    def finish(self) -> None:
        """End what a launcher leaves on this host: where a node has failed, mpirun leaves its srun."""
        if self.group is not None:
            super()._send(signal.SIGKILL)
        if self.job is not None and not self._asked.steps_of_slurm:
            from muster.act.left_over import end_left_over_steps

            end_left_over_steps(self.job)
        if (self.child_status or 0) >= 0:  # else salloc was killed: the guard gives back what it held
            self._guard.finish()

    def _send(self, number: int) -> None:
        if number == signal.SIGTERM and self.started and self.job is not None and self._asked.steps_of_slurm:
            from muster.slurm.allocation import cancel_softly

            with _nothing() as null_descriptor, suppress(MachineLacks):
                spawn(cancel_softly(self.job), self._environment, files=dict.fromkeys(range(3), null_descriptor))
            # The script waits for its ranks, and then knows that they are not to start again.
            with suppress(ProcessLookupError):
                if self.script is not None:
                    os.kill(self.script, signal.SIGTERM)
        else:
            super()._send(number)

    def look(self) -> None:
        """Say why the job waits, and when Slurm expects it to start: once, and whenever that changes.

        A salloc that names no job is reported once.
        """
        now = time.monotonic()
        if self.started or self.child_status is not None or now < self._ask_at:
            return
        if self.job is None:
            if now > self._waits_since + _SILENT_S and not self._is_silence_told:
                self._is_silence_told = True
                self._asked.say(_SILENT)
            return
        words = self._asked.wait_words(self.job)
        # Slurm looks at a job some moments after it was queued; until then there is no reason to say.
        self._ask_at = now + min(60.0, max(5.0 if words else 1.0, (now - self._waits_since) / 4))
        if words and words != self._last_words:
            self._last_words = words
            self._asked.say(words)


def keep_allocated(
    salloc: Sequence[str],
    script: str,
    environment: Mapping[str, str],
    request: KeepSettings,
) -> tuple[Kept, list[str]]:
    """Run the script in an allocation that `salloc` (its words) asks for; how it ended, and what else salloc said."""
    start_time = time.time()
    with guarded(environment, request.patience_s) as guard:
        keeper = _Allocated(request, environment, guard)
        _run_allocated(keeper, salloc, script, environment)
    was_killed = keeper.started and keeper.ended is None and keeper.told is None
    kept_job = keeper.kept(has_started=keeper.started, job=keeper.job, was_killed=was_killed)
    report = "\n".join([kept_job.report, *keeper.refusal])  # salloc names a node that failed
    return replace(kept_job, killed=was_killed and not keeper.revoked, began=start_time, report=report), keeper.refusal


def _run_allocated(keeper: _Allocated, salloc: Sequence[str], script: str, environment: Mapping[str, str]) -> None:
    """Start salloc, and the script in it; return when both have ended."""
    with (
        keeper.listening() as wake,
        _handed_over(script) as memory,
        _open_input() as (input_descriptor, terminal),
    ):
        files = {
            0: input_descriptor,
            1: keeper.out.writer,
            2: keeper.salloc.writer,
            _SCRIPT: memory,
            _TOLD: keeper.shell.writer,
            _ERRORS: keeper.errors.writer,
            **({_INPUT: 0} if terminal else {}),
        }
        words = [*salloc, "sh", "-c", _WITHIN_SALLOC, "muster", str(int(terminal))]
        keeper.start(words, environment, files)
        with _foreground(None):
            keeper.run(wake, keeper.look)
        keeper.finish()


@contextmanager
def _nothing() -> Iterator[int]:
    null_descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        yield null_descriptor
    finally:
        os.close(null_descriptor)


@contextmanager
def _handed_over(script: str) -> Iterator[int]:
    """Yield the script in memory that nobody else can open: a word of a command line is for everybody to read."""
    memory = script_in_memory(script)
    try:
        yield memory
    finally:
        os.close(memory)


def script_in_memory(script: str, number: int | None = _SCRIPT) -> int:
    """Return a descriptor from which bash reads the script as /dev/fd/3; the script closes it for what it starts.

    `number`: the descriptor's number in bash; None: its number here.
    """
    memory = os.memfd_create("muster-script")
    with os.fdopen(os.dup(memory), "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(f"exec {memory if number is None else number}<&-\n{script}")
    return memory


@contextmanager
def script_to_pass(script: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Give a descriptor that a started process is to inherit, and the words by which it runs the script from there."""
    memory = script_in_memory(script, None)
    try:
        yield memory, ("bash", f"/dev/fd/{memory}")
    finally:
        os.close(memory)


@contextmanager
def _open_input() -> Iterator[tuple[int, bool]]:
    """Yield the descriptor that salloc reads, and whether the script reads the terminal in its place."""
    if not os.isatty(0):
        yield 0, False
        return
    with _nothing() as null_descriptor:
        yield null_descriptor, True


@contextmanager
def _foreground(group: int | None) -> Iterator[None]:
    """Give the script the terminal, if this process has it, and take it back at the end.

    Ctrl-C is for it, rank 0 may read.
    """
    old_handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    is_owner = _owns_terminal()
    try:
        if group is not None:
            _give_terminal(group)
        yield
    finally:
        if is_owner:
            with suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, old_handler)


def _owns_terminal() -> bool:
    """Return whether the terminal is this group's to give; one that is nobody's controlling terminal is not."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _give_terminal(group: int) -> None:
    """Wake a process of that group that asked for the terminal too early."""
    with suppress(OSError):
        if _owns_terminal():
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
