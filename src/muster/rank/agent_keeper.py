"""Keeps one torchrun agent: what its ranks write goes out at once and whole, and what does not end is ended.

The agent's own --tee loses lines and writes foreign memory (its threads share one stream without a lock), and holds
all of it back until the end. Here each rank writes into a pipe of its own; one thread passes whole lines on, each
behind its rank, and is still there when the agent was killed. Started as
`python -I -S -c TEXT label|plain COMMAND… TOLD…`: last stands what the prologue tells
(render/shell/rank/agent_words.sh).
"""

import fcntl
import os
import select
import signal
import sys
import time
from typing import Dict, List, Optional, Sequence

# A rank opens its ends of our pipes by these numbers, in /proc (render/shell/rank/worker.sh).
FIRST_PIPE = 400
# So many words of the prologue stand behind the command of a rank (render/shell/rank/agent_words.sh).
_TOLD_WORDS = 10
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 20
_LOOK_S = 0.1
_BEGINS_S = 60
# The agent has ended its ranks: so long it may take to report and to leave.
_REPORT_S = 1.0
# Ranks that are still there so long after the first failure may take the whole grace: the other nodes are told.
_TELL_S = 0.5
# A pipe holds 1 MiB at most: more comes from a process that left its rank's group and goes on.
_MOST_CHUNKS = 64
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Without effect unless it was asked for: ranks do not notice that one keeper tells all others.
_TOLD = signal.SIGURG
# Variables of MPI describe the agent: a rank that finds them takes them for its own.
_OF_MPI = (
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"),
    *("PRTE_", "PMIX_", "PMI_", "PALS_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


class _Out:
    """One of our two streams; a failed write is reported once, and the ranks go on."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: Optional[OSError] = None

    def write(self, data: bytes) -> None:
        while data and self.error is None:
            try:
                data = data[os.write(self.descriptor, data) :]
            except BlockingIOError:
                select.select([], [self.descriptor], [], 1.0)
            except OSError as error:
                self.error = error


class _Pipe:
    """What one rank writes on one stream: first the line "RANK PID", then its output."""

    def __init__(self, output: _Out, keeper: "Keeper", *, hello: bool, label: bool, whole: bool) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._out, self._keeper = output, keeper
        self._hello, self._label, self._whole = hello, label, whole
        self._prefix = b""
        self._rest = b""

    def read(self) -> bool:
        """Pass on what is there; False at its end."""
        try:
            chunk = os.read(self.reader, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        if chunk:
            self._feed(chunk)
        return bool(chunk)

    def empty(self) -> None:
        """Pass on all that is there now."""
        for _ in range(_MOST_CHUNKS):
            try:
                chunk = os.read(self.reader, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                return
            self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        self._rest = b""
        if self._hello:
            first, end, data = data.partition(b"\n")
            if not end:
                self._rest = first
                return
            self._hello = False
            rank, pid = first.split()
            self._prefix = rank + b": " if self._label else b""
            self._keeper.note_rank(int(pid))
        if self._whole:
            data, end, self._rest = data.rpartition(b"\n")
            self._write(data + end)
            if len(self._rest) > _LONGEST_LINE_BYTES:
                self.close()
        elif data:
            self._out.write(data)

    def _write(self, lines: bytes) -> None:
        if lines and self._prefix:
            lines = self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n"
        self._out.write(lines)

    def close(self) -> None:
        """End a last line that was never ended, so that no other rank's line stands behind it."""
        if self._rest and not self._hello:
            self._write(self._rest + b"\n")
        self._rest = b""


class _AgentErrors(_Pipe):
    """The agent's own words: they tell when it begins to end its ranks."""

    def _write(self, lines: bytes) -> None:
        if b" closing signal " in lines:
            self._keeper.note_closing()
        self._out.write(lines)


class Keeper:
    """One agent, its ranks' pipes, and when it began to end."""

    def __init__(self, words: Sequence[str], *, ranks: int, grace_s: float, label: bool, ends_once: bool) -> None:
        self._grace_s = grace_s
        self._ranks: Dict[int, str] = {}
        self._noted: List[int] = []
        self._ending_since: Optional[float] = None
        self._closing_since: Optional[float] = None
        self._tell_at: Optional[float] = None
        self._killed = False
        self._ends_once = ends_once
        self._outs = [_Out(1), _Out(2)]
        self._pipes: Dict[int, _Pipe] = {}
        self._poll = select.poll()
        self._wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (*_ENDINGS, _TOLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, lambda number, _: self._noted.append(number))
        self._poll.register(self._wake, select.POLLIN)
        for index in range(2 * ranks):
            # A single rank's bytes are as it wrote them.
            pipe = _Pipe(self._outs[index % 2], self, hello=True, label=label, whole=label or ranks > 1)
            _move(pipe, FIRST_PIPE + index)
            self._add(pipe)
        self._agent = self._start(words, ranks)

    def _add(self, pipe: _Pipe) -> None:
        self._pipes[pipe.reader] = pipe
        self._poll.register(pipe.reader, select.POLLIN)

    def _start(self, words: Sequence[str], ranks: int) -> int:
        own_pipes = [
            _Pipe(self._outs[0], self, hello=False, label=False, whole=True),
            _AgentErrors(self._outs[1], self, hello=False, label=False, whole=True),
        ]
        for pipe in own_pipes:
            self._add(pipe)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_MPI)}
        environment["MUSTER_PIPES"] = "/proc/%d/fd" % os.getpid()
        if environment.get("MUSTER_OMP") == "own":
            environment["OMP_NUM_THREADS"] = str(_threads(ranks, int(environment.get("MUSTER_CPUS") or 0)))
        moves = [(os.POSIX_SPAWN_DUP2, pipe.writer, number) for number, pipe in enumerate(own_pipes, start=1)]
        return os.posix_spawn(
            words[0], list(words), environment, file_actions=moves, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )

    def note_rank(self, pid: int) -> None:
        """Note that a rank has started."""
        self._ranks[pid] = _born(pid)

    def note_closing(self) -> None:
        """Note that the agent has begun to end its ranks: one has failed, or it was told to."""
        if self._closing_since is None and self._ends_once:
            self._closing_since = time.monotonic()
            self._tell_at = self._closing_since + _TELL_S if self._ending_since is None else None

    def run(self) -> int:
        """Wait for the agent, and say how it ended."""
        status = None
        while status is None:
            self._pass_on(_LOOK_S)
            status = self._ended()
            self._hear()
            self._end_in_time()
        self._end_ranks()
        for pipe in self._pipes.values():
            os.close(pipe.writer)
        self._drain()
        return self._status(status)

    def _pass_on(self, patience_s: float) -> bool:
        """Pass on what came within `patience_s`; whether anything did."""
        ready = self._poll.poll(patience_s * 1000)
        for descriptor, _ in ready:
            if descriptor == self._wake:
                os.read(descriptor, 512)
            elif not self._pipes[descriptor].read():
                self._pipes[descriptor].close()
                self._poll.unregister(descriptor)
                os.close(descriptor)
                del self._pipes[descriptor]
        return bool(ready)

    def _ended(self) -> Optional[int]:
        pid, status = os.waitpid(self._agent, os.WNOHANG)
        return status if pid else None

    def _hear(self) -> None:
        """Start the clock at a signal, and end nothing: signals go to all processes of a task, the agent too."""
        while self._noted:
            number = self._noted.pop(0)
            if self._ending_since is not None or number not in (*_ENDINGS, _TOLD):
                continue
            self._tell_at = None
            if number == _TOLD:
                if self._closing_since is not None:
                    continue
                os.kill(self._agent, signal.SIGTERM)
            self._ending_since = time.monotonic()

    def _end_in_time(self) -> None:
        since = self._ending_since if self._closing_since is None else self._closing_since
        if since is None:
            return
        now = time.monotonic()
        if self._tell_at is not None and now >= self._tell_at:
            self._tell_at = None
            _tell_other_nodes()
        if now >= since + self._grace_s and not self._killed:
            self._killed = True
            self._signal_ranks(signal.SIGKILL)
        if now >= since + self._grace_s + _REPORT_S:
            os.kill(self._agent, signal.SIGKILL)

    def _signal_ranks(self, number: int) -> None:
        """Signal the group that each rank leads; a number that is another process's by now is left alone."""
        for pid, born in self._ranks.items():
            if born and _born(pid) == born:
                try:
                    os.killpg(pid, number)
                except OSError:  # it does not lead a group, or ended at this moment
                    pass

    def _end_ranks(self) -> None:
        """End the ranks that the agent has left: it was killed, or a second SIGTERM ended it early."""
        if self._ending_since is None:
            self._signal_ranks(signal.SIGTERM)
        until = (self._ending_since or time.monotonic()) + self._grace_s
        while time.monotonic() < until and any(born and _born(pid) == born for pid, born in self._ranks.items()):
            self._pass_on(_LOOK_S)
        self._signal_ranks(signal.SIGKILL)

    def _drain(self) -> None:
        """Pass on what is in the pipes: all who wrote have ended, but for what left its rank's group."""
        for pipe in self._pipes.values():
            pipe.empty()
            pipe.close()

    def _status(self, status: int) -> int:
        for output in self._outs:
            if output.error is not None and not isinstance(output.error, BrokenPipeError):
                # The job ends as its ranks did, as under every launcher: the script's end tells of the disk too.
                self._outs[1].write(
                    ("muster: warning: the output could not be written: %s\n" % output.error.strerror).encode()
                )
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
        return 128 + number


def _threads(ranks: int, asked: int) -> int:
    """Return how many threads each rank gets: its share of the cores of this task's mask, or what was asked for."""
    cores = len({_core(cpu) for cpu in os.sched_getaffinity(0)})
    return max(1, min(cores // ranks, asked or cores))


def _core(cpu: int) -> str:
    """Return what all hardware threads of the core of `cpu` have in common."""
    try:
        with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu) as file:
            return file.read() or str(cpu)
    except OSError:
        return str(cpu)


def _move(pipe: _Pipe, number: int) -> None:
    """Give the writing end the number that its rank knows."""
    os.dup2(pipe.writer, number, inheritable=False)
    os.close(pipe.writer)
    pipe.writer = number


def _born(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty where there is none, or it has only to be reaped."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _tell_other_nodes() -> None:
    """Let the keepers of the step's other nodes end their agents now: srun tells of our end only when it has come."""
    # In a further part of a heterogeneous job Slurm sets SLURM_JOB_ID to that of the first.
    job = os.environ.get("muster_part_job") or os.environ.get("SLURM_JOB_ID")  # noqa: SIM112  # the roles' runner sets it
    step = [job, os.environ.get("SLURM_STEP_ID")]
    if None in step or os.environ.get("SLURM_STEP_NUM_NODES", "1") == "1":
        return
    words = ["scancel", "--quiet", "--signal=URG", "%s.%s" % tuple(step)]
    try:
        os.posix_spawnp(words[0], words, os.environ)
    except OSError:  # an image need not have it: each node then ends in its own time
        pass


def _log_directory() -> str:
    """Return a directory of Muster's own for torchrun's files, which would stay in /tmp for ever."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    _remove_left(folder)
    path = os.path.join(folder, "muster-agent-%d-%s" % (os.getpid(), os.urandom(4).hex()))
    os.mkdir(path, 0o700)
    _lock(path)
    return path


def _lock(path: str) -> bool:
    """Lock a directory as long as this process lives, and return whether nobody else had; only its owner can."""
    try:
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_left(folder: str) -> None:
    """Remove the directories of keepers of this user that were killed: their locks have gone with them."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            # A keeper that begins makes its directory a moment before it locks it.
            is_old = name.startswith("muster-agent-") and time.time() - os.lstat(path).st_mtime > _BEGINS_S
            if is_old and os.lstat(path).st_uid == os.getuid() and _lock(path):
                _remove(path)
        except OSError:  # another keeper was faster
            continue


def _remove(path: str) -> None:
    import shutil  # not before the ranks have ended

    shutil.rmtree(path, ignore_errors=True)


def main(words: Sequence[str]) -> int:
    """Start the agent and wait for it: whether lines get labels, the command of a rank, and what the prologue tells."""
    label, *command = words[:-_TOLD_WORDS]
    grace_s, ranks, module, nodes, *meeting, more = words[-_TOLD_WORDS:]
    flags = [line for line in more.split("\n") if line]
    logs = _log_directory()
    agent = [sys.executable, "-m", module, "--log-dir=" + logs, nodes, "--nproc-per-node=" + ranks, *meeting]
    # torchrun replaces $$ and ${local_rank} in every word.
    rank = ["--no-python", *(word.replace("$", "$$") for word in command)]
    restarts = [flag.partition("=")[2] for flag in flags if flag.startswith(("--max-restarts=", "--max_restarts="))]
    try:
        return Keeper(
            [*agent, "--max-restarts=0", *flags, *rank],
            ranks=int(ranks),
            grace_s=float(grace_s),
            label=label == "label",
            # What the agent starts again itself is not the end.
            ends_once=restarts[-1:] in ([], ["0"]),
        ).run()
    finally:
        _remove(logs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
