"""A job on this machine, without Slurm: `muster.submit(…, here=True)`, for notebooks and tests."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from muster.act.record import write_whole
from muster.act.run_folder import make_run_folder
from muster.api.events import Ended, Event, Running
from muster.api.hints import hints_shown
from muster.api.result import Result, TookTooLong, ended_badly, output_text, rank_text, wait_in_thread
from muster.follow.watch import output_of_run
from muster.model.failure import Failure, exit_words
from muster.model.plan import Plan
from muster.runner import DEVNULL, STDOUT, run, shell_status, start
from muster.slurm.states import Phase, State, state_of

if TYPE_CHECKING:
    from muster.runner import Process

_LOOK_S = 0.05
_RUNS = State("RUNNING", Phase.RUNNING, "it runs")
_ENDED = "ended.json"


class LocalJob:
    """Ranks that run on this machine; what they write lies in a run directory, as a job's output does."""

    def __init__(self, plan: Plan, environment: Mapping[str, str], typed: Sequence[str]) -> None:
        parent = Path(plan.working_directory) / "muster-runs"
        self.directory = make_run_folder(plan, parent, environment, run)
        """Its run directory."""
        self.id = self.directory.name
        """The name of its run directory: Slurm knows no number of it."""
        log = os.open(self.directory / "logs/here.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        words = [sys.executable, "-m", "muster.api.here", str(self.directory), *typed]
        try:
            self._process: Process = start(
                words, env=environment, cwd=plan.working_directory, stdin=DEVNULL, stdout=log, stderr=STDOUT
            )
        finally:
            os.close(log)
        self._is_cancelled = False

    def __repr__(self) -> str:
        return f"<muster job {self.id}, here>"

    def state(self) -> State:
        """Return where it is in its life: `.name`, `.phase` and `.sentence`."""
        status = self._process.poll()
        if status is None:
            return _RUNS
        status = self._how()[0]
        if status == 0:
            return State("COMPLETED", Phase.ENDED_WELL, "it ended with status 0")
        if self._is_cancelled:
            return state_of("CANCELLED")
        return State("FAILED", Phase.ENDED_BADLY, f"it failed: {exit_words(status)}")

    def wait(self, timeout: float | None = None) -> State:
        """Wait until it is over; return its last state. TookTooLong after `timeout` seconds: the job goes on."""
        end = None if timeout is None else time.monotonic() + timeout
        while self._process.poll() is None:
            if end is not None and time.monotonic() >= end:
                with hints_shown():
                    raise TookTooLong(self.id, timeout or 0)
            time.sleep(_LOOK_S)
        return self.state()

    def result(self, timeout: float | None = None) -> Result:
        """Wait until it is over; return how it ended, and what failed first."""
        state = self.wait(timeout)
        status, rank = self._how()
        if state.phase is Phase.ENDED_WELL:
            return Result(self.id, state, status, directory=self.directory)
        host = os.uname().nodename
        ranks = () if rank is None else (rank,)
        sentence = state.sentence if rank is None else f"rank {rank} on {host}: {exit_words(status)}"
        failure = Failure(sentence, host, ranks, status, "", ending=exit_words(status))
        return ended_badly(self.id, state, status, output_of_run(self.directory), failure, self.directory, None)

    def results(self, timeout: float | None = None) -> tuple[Result, ...]:
        """Wait until it is over; return its one result."""
        return (self.result(timeout),)

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield that it runs, and that it is over."""
        yield Running(self.id, _RUNS, (os.uname().nodename,), int(self.directory.stat().st_mtime))
        result = self.result(timeout)
        yield Ended(self.id, result.state, result)

    def logs(self) -> str:
        """Return what it has written so far, with the rank before each line where there are several."""
        return output_text(output_of_run(self.directory))

    def stdout(self, rank: int = 0) -> str:
        """Return what one rank has written so far."""
        return rank_text(output_of_run(self.directory), rank)

    def cancel(self) -> None:
        """End its ranks; one that is over already is left as it is."""
        if self._process.poll() is None:
            self._is_cancelled = True
            self._process.terminate()

    def __await__(self) -> Generator[Any, None, Result]:
        return wait_in_thread(self.result)

    def _how(self) -> tuple[int, int | None]:
        """Return the status, and the rank that failed first, of a job that is over."""
        try:
            told = json.loads((self.directory / _ENDED).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it was killed, or refused its start
            return shell_status(self._process.returncode), None
        return told["status"], told["first_failed"]


def write_ending(directory: Path, status: int, first_failed: int | None) -> None:
    """Write how the ranks of this run directory ended."""
    ending = {"status": status, "first_failed": first_failed}
    write_whole(directory / _ENDED, msgspec.json.encode(ending).decode() + "\n")
