"""One attempt: a run of the job's script that starts ranks, what it tells meanwhile, and how it ended.

Standard library only, Python 3.6.
"""

import os
import re
import signal
import subprocess
import time
from threading import Thread
from typing import IO, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from muster.life import asking, machine, told
from muster.life.loop import start_aside
from muster.life.machine import FirstCause
from muster.life.rules import Rules
from muster.life.script import RunningScript

_TAIL_BYTES = 1 << 16
# What left its rank's group may hold the errors' pipe open after the script has ended.
_DRAIN_S = 5.0
_MOST_RANKS = 64
# An agent that lost the store of a dead node ends with 1, one that Slurm ended by a signal.
_OF_A_LOST_NODE = (1, 137, 143)
_EXCEPTION = re.compile(r"(?:\w+\.)*(?!SIGTERM|Signal)\w+(?:Error|Exception)(?::|$)")


class ScriptEnd(NamedTuple):
    """What is known when the script of an attempt has ended."""

    status: int
    failed: told.FailedRank = told.FailedRank()
    words: str = ""
    """The last error line of the rank that failed first."""

    memory: str = ""
    is_preempted: bool = False
    own: Optional[FirstCause] = None
    """The rank that had an error of its own, where the first that failed only lost a connection."""


class RunningAttempt(RunningScript):
    """The script of one attempt while it runs."""

    def __init__(
        self,
        attempt: int,
        hosts: Sequence[str],
        rules: Rules,
        writer: int,
        post: Callable[[Callable[[], None]], None],
        ended: Callable[["RunningAttempt", ScriptEnd], None],
    ) -> None:
        super().__init__(rules.steps_of, rules.own)
        self.attempt, self.hosts, self.rules = attempt, tuple(hosts), rules
        self.has_ended = False
        self.status = 1
        """That of the script; of one that did not end: it failed."""
        self._words = ""
        self._writer, self._post, self._ended = writer, post, ended
        self._starters: List[int] = []
        self._ends = ""
        self._unsaid: Optional[Tuple[str, bool, str]] = None
        self._failed_nodes: List[str] = []
        self._first: Optional[FirstCause] = None
        """The rank that failed first, whoever had left before."""
        self._tail = b""
        self._relay: Optional[Thread] = None

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the script."""
        told_to = {"MUSTER_SUPERVISOR": "/proc/%d/fd/%d %d" % (os.getpid(), self._writer, self.attempt)}
        errors = None if self.rules.keeps else subprocess.PIPE
        # The script may lie in memory, under a descriptor that the child needs too.
        self.start_script(words, dict(environment, **told_to), stderr=errors, close_fds=False)

    def script_began(self, child: "subprocess.Popen[bytes]") -> None:
        """Pass its errors on, where no file takes them."""
        if child.stderr is not None:
            self._relay = start_aside(self._pass_on, child.stderr)

    def _pass_on(self, errors: IO[bytes]) -> None:
        """Pass the errors on, and keep their end: no file of the run holds them."""
        with errors:
            while True:
                chunk = os.read(errors.fileno(), _TAIL_BYTES)
                if not chunk:
                    return
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
                while chunk:
                    try:
                        chunk = chunk[os.write(2, chunk) :]
                    except BlockingIOError:
                        time.sleep(0.01)
                    except OSError:
                        chunk = b""  # no program reads any more

    def script_ended(self, status: int, *, is_killed: bool) -> None:
        """Read what is known of the end."""
        if is_killed:
            # The shell itself was killed: what it has started is ended here.
            self._end_starters(signal.SIGKILL)
        if self._relay is not None:
            self._relay.join(_DRAIN_S)
        try:
            end = self.read_end(status)
        except Exception:  # noqa: BLE001  # whatever the logs hold, the end itself is told
            end = ScriptEnd(status)
        self._post(lambda: self._ended(self, end))

    def read_end(self, status: int) -> ScriptEnd:
        """Return what is known of an attempt that has ended, from what was written and from Slurm."""
        files = self._files()
        failed, words, memory, is_preempted, own_error = told.FailedRank(), "", "", False, None
        if self.rules.save_s:
            job = asking.ask_job(self.rules.job)
            is_preempted = job is not None and job.preempted
        if status:
            lines = [line for _, lines in files for line in lines]
            failed = told.FIRST[self.rules.tells](lines)
            first = self._first
            if first is not None and self.rules.tells == "srun":
                failed = told.FailedRank(first.rank, first.host)
            words = first.words if first is not None else ""
            if not words:
                words = told.last_error(_of_rank(files, failed) or lines, failed.rank, self.rules.is_labelled)
                own_error = self._own_error(files, lines) if machine.lost_connection(words) else None
            memory = told.memory_words(lines)
        return ScriptEnd(status, failed, words, memory, is_preempted, own_error)

    def _own_error(self, files: Sequence[Tuple[str, List[str]]], lines: Sequence[str]) -> Optional[FirstCause]:
        """Return a failed rank whose last error tells of no lost connection: one that ends slowly is heard of late."""
        failed = [(rank, host, 1) for _, _, rank, host in told.reports_of_torchrun(lines)]
        if self.rules.tells == "srun":
            ends = [end for end in map(told.read_srun, lines) if end is not None]
            failed = [(rank, end.host, end.status) for end in ends for rank in end.tasks]
        for rank, host, status in failed[:_MOST_RANKS]:
            of_rank = _of_rank(files, told.FailedRank(rank, host)) or (lines if self.rules.is_labelled else [])
            words = told.last_error(of_rank, rank, self.rules.is_labelled)
            if _EXCEPTION.match(words) and not machine.lost_connection(words):
                return FirstCause("rank", rank, host, status, words)
        return None

    def _files(self) -> List[Tuple[str, List[str]]]:
        """Return the names and the last lines of all files of this attempt."""
        if not self.rules.keeps:
            return [("", self._tail.decode("utf-8", "replace").splitlines())]
        folder = os.path.join(self.rules.run, "logs", *(["attempt-%d" % self.attempt] if self.attempt > 1 else []))
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".log"))
        except OSError:
            names = []
        return [(name, told.read_end(os.path.join(folder, name))) for name in names]

    # What the script tells

    def heard(self, word: str, rest: str) -> List[Any]:
        """Return the events of one line that the script has told."""
        if word == "starter" and rest.isdigit():
            self._starters.append(int(rest))
        elif word == "ends":
            self._ends = rest
        elif word == "unsaid":
            host, is_lost, sentence = [*rest.split(" ", 2), "", "", ""][:3]
            self._unsaid = self._unsaid or (host, is_lost == "lost", sentence)
        elif word == "hang":
            return [machine.HangSeen(rest)]
        elif word == "signalled":
            return [machine.RanksSave("asked")]
        elif word == "srun":
            return self._heard_srun(rest)
        return []

    def _heard_srun(self, line: str) -> List[Any]:
        if told.waits_for_nodes(line):
            return [machine.StepWaits()]
        end = told.read_srun(line)
        if end is None:
            return []
        if not end.tasks:
            self._failed_nodes.append(end.host)
            return [machine.NodeFailed(end.host)]
        if self.rules.tells != "srun":
            is_own = self.rules.tells == "torchrun" and end.status not in _OF_A_LOST_NODE
            return [machine.StepFails(end.status, host=end.host if is_own else "")]
        if self._first is None:
            self._first = FirstCause("rank", end.tasks[0], end.host, end.status, end.words)
        return [*self._left(), machine.RankEnded(end.tasks[0], end.host, end.status, end.words, end.tasks[1:])]

    def _left(self) -> List[Any]:
        """Return which ranks have said that they ended with 0, where the files of the nodes are seen here."""
        left = [(rank, host) for rank, host, word in self._said_by_ranks() if word == "0"]
        return [machine.RanksLeft(tuple(rank for rank, _ in left), left[0][1])] if left else []

    def _said_by_ranks(self) -> List[Tuple[int, str, str]]:
        """Return what the ranks have written in the files of the nodes: the rank, its node, and its word."""
        rows: List[Tuple[int, str, str]] = []
        for place, host in enumerate(self.hosts):
            for line in told.read_end(os.path.join(self._ends, "%d.%d" % (self.attempt, place))) if self._ends else ():
                rank, _, word = line.partition(" ")
                if rank.isdigit():
                    rows.append((int(rank), host, word))
        return rows

    def events_of_end(self, end: ScriptEnd) -> List[Any]:
        """Return the events of the script's end, the step's last."""
        events: List[Any] = []
        self.status = end.status
        if end.status == 0:
            return [machine.EndsCounted(), machine.StepEnded(0)]
        if self.rules.tells == "srun":
            events += self._left()
        failed = end.failed
        if failed.rank is not None:
            status = self._first.status if self._first is not None else end.status
            events.append(machine.RankEnded(failed.rank, failed.host, status, end.words))
            self._first = FirstCause("rank", failed.rank, failed.host, end.status, end.words)
            if end.own is not None and end.own.rank is not None:
                events.append(machine.RankEnded(end.own.rank, end.own.host, end.own.status, end.own.words))
        elif failed.daemon or failed.host:
            events.append(machine.NodeFailed(failed.host, failed.daemon))
        else:
            events.append(machine.StepFails(end.status))
        events += [machine.NodeFailed(host) for host in self._failed_nodes]
        if end.memory:
            events.append(machine.StepFails(end.status, end.memory))
        if self._unsaid is not None:
            host, is_lost, sentence = self._unsaid
            kind = machine.NodeFailed(host, sentence) if is_lost else machine.EndsUnknown(host, sentence)
            events.append(kind)
        self._words = end.words
        events.append(machine.StepEnded(end.status))
        return events

    def failing(self, cause: FirstCause) -> FirstCause:
        """Return the rank whose failure was seen, where the cause is one that had left before it."""
        is_left = cause.kind == "rank" and cause.status == 0 and self._first is not None
        return self._first if is_left and self._first is not None else cause

    def cause_text(self, cause: FirstCause) -> str:
        """Return the first cause in words."""
        if cause.kind == "node":
            return cause.words or cause.host + " failed"
        if cause.kind in ("hang", "memory", "unsaid"):
            return cause.words
        failing = self.failing(cause)
        words = failing.words if failing.kind == "rank" else self._words or cause.words
        text = told.end_words(self.status) + (" (%s)" % words if words else "")
        if cause.words and cause.kind == "":
            text = cause.words
        if cause.host and cause.kind == "":
            text = "%s itself on %s: %s" % (self.rules.tells, cause.host, told.end_words(cause.status))
        if failing.kind == "rank":
            text = "rank %s%s: %s" % (failing.rank, " on " + failing.host if failing.host else "", text)
        if failing is not cause:
            # The node of a rank that left is known; a rank whose end nobody reports did not say 0.
            host = cause.host or next((host for rank, host, _ in self._said_by_ranks() if rank == cause.rank), "")
            deed = " ended with status 0, and then " if cause.host else ": %s; " % cause.words
            text = "rank %s%s%s%s" % (cause.rank, " on " + host if host else "", deed, text)
        return text

    # Its end

    def mark(self) -> str:
        """Return how the mark of all its processes begins; empty: they have none."""
        return "%s/%d." % (self._ends, self.attempt) if self._ends else ""

    def end(self, by: str) -> None:
        """Signal what runs the ranks."""
        if self.has_ended or self.child is None:
            return
        if by == "starter":
            self._end_starters(signal.SIGKILL)
            return
        number = signal.SIGTERM if by == "TERM" else signal.SIGKILL
        if self.rules.by_program:
            self._signal_programs(number)
        self.signal_steps(by)

    def _signal_programs(self, number: int) -> None:
        for pid in asking.descendants(self.child.pid) if self.child is not None else ():
            if asking.command_of(pid).startswith(("mpirun", "mpiexec")):
                asking.send(pid, number)

    def _end_starters(self, number: int) -> None:
        for pid in self._starters:
            if asking.command_of(pid) == "srun":
                asking.send(pid, number)
        self._signal_programs(number)

    def kill(self) -> None:
        """End the script itself and all that it has started here: nothing of it may outlive its attempt."""
        if self.child is None or self.child.poll() is not None:
            return
        for pid in [self.child.pid, *asking.descendants(self.child.pid)]:
            asking.send(pid, signal.SIGKILL)
        self.has_ended = True


def _of_rank(files: Sequence[Tuple[str, List[str]]], failed: told.FailedRank) -> List[str]:
    """Return the lines of the file that a rank, or its host, has of its own; none: there is no such file."""
    names = ("%s.%s.log" % (failed.host, failed.rank), failed.host + ".log") if failed.host else ()
    file_lines: Dict[str, List[str]] = dict(files)
    return next((file_lines[name] for name in names if name in file_lines), [])
