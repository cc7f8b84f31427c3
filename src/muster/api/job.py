"""A queued job: its state, its end, its events. The controller is asked at most once in 10 seconds for a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from muster.act.record import state_directory
from muster.api.events import Ended, Event, Pending, Running
from muster.api.hints import hints_shown
from muster.api.result import Result, TookTooLong, ended_badly, output_text, rank_text, wait_in_thread
from muster.errors import HostlistError, SchedulerSilent
from muster.follow.cancel import cancel_cases
from muster.follow.cases import JobCase, JobSources, find_cases, ids_with_links
from muster.follow.find_output import find_output
from muster.follow.first_failure import first_failure
from muster.follow.row import row_of_task
from muster.follow.scheduler import Scheduler
from muster.follow.watch import JobOutput
from muster.look.cluster import cluster_name
from muster.rank.hostlist import expand
from muster.slurm.jobs import parse_job_id
from muster.slurm.states import STATES, Phase, State

ASK_EVERY_S = 10.0
_SILENT_FOR_S = 300.0
# Of the tasks of an array, the one that tells the most of the whole.
_FIRST = (Phase.RUNNING, Phase.WAITING, Phase.ENDED_BADLY, Phase.UNKNOWN, Phase.ENDED, Phase.ENDED_WELL)


class Job:
    """A job in the queue, running, or over."""

    def __init__(
        self,
        job_id: str,
        environment: Mapping[str, str],
        *,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = parse_job_id(job_id)
        self.directory = directory
        """Its run directory; None: it is not a job of Muster's."""
        home = environment.get("HOME") or str(Path.home())
        self._slurm = Scheduler(dict(environment))
        self._place = JobSources(self._slurm, state_directory(environment, home), cluster_name(environment))
        self._clock, self._sleep = clock, sleep
        self._cases: tuple[JobCase, ...] = ()
        self._asked: float | None = None
        """When the controller was asked last."""
        self._answered = self._heard = clock()
        """When Slurm answered last, and when all of it did: a job that it has forgotten is one for accounting."""

    def __repr__(self) -> str:
        return f"<muster job {self.id}>"

    def state(self) -> State:
        """Return where it is in its life, at most 10 seconds old: `.name`, `.phase` and `.sentence`."""
        with hints_shown():
            return _state(self._chosen())

    def wait(self, timeout: float | None = None) -> State:
        """Wait until it is over; return its last state. TookTooLong after `timeout` seconds: the job goes on."""
        with hints_shown():
            for _ in self._looks(timeout):
                pass
            return _state(self._chosen())

    def result(self, timeout: float | None = None) -> Result:
        """Wait until it is over; return how it ended, and what failed first: rank, host and cause."""
        self.wait(timeout)
        with hints_shown():
            return _result(self._chosen())

    def results(self, timeout: float | None = None) -> tuple[Result, ...]:
        """Wait until it is over; return how each task of an array ended, by its number; else the one result."""
        self.wait(timeout)
        with hints_shown():
            return tuple(_result(case) for case in sorted(self._look(), key=_task_number))

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield what becomes of it from now on, to its end: Pending, Running, and Ended at the last.

        A job that began and ended between two looks has its Running too: Slurm remembers when and where it began.
        """
        last: Event | None = None
        last_run: Event | None = None
        with hints_shown():
            for cases in self._looks(timeout):
                case = _most_telling(cases)
                for event in (_run_of(case), _event(case, is_over=_are_over(cases))):
                    known = last_run if isinstance(event, Running) else last
                    if event is None or _is_same(event, known):
                        continue
                    yield event
                    last = event
                    last_run = event if isinstance(event, Running) else None

    def logs(self) -> str:
        """Return what it has written so far, with the rank before each line where there are several."""
        with hints_shown():
            return "".join(output_text(_output(case)) for case in self._look())

    def stdout(self, rank: int = 0) -> str:
        """Return what one rank has written so far."""
        with hints_shown():
            return "".join(rank_text(_output(case), rank) for case in self._look())

    def __await__(self) -> Generator[Any, None, Result]:
        return wait_in_thread(self.result)

    def cancel(self) -> None:
        """End it, waiting or running; one that is over already is left as it is."""
        with hints_shown():
            if self._look() and not _are_over(self._cases):
                cancel_cases(self._cases, self._slurm)

    def _chosen(self) -> JobCase:
        return _most_telling(self._look())

    def _look(self) -> tuple[JobCase, ...]:
        """Return what is known of it; the controller is asked where the last answer is too old."""
        is_fresh = self._asked is not None and self._clock() - self._asked < ASK_EVERY_S
        if self._cases and (is_fresh or _are_told(self._cases)):
            return self._cases
        if is_fresh:  # it was asked a moment ago, and did not answer
            self._sleep(self._pause())
        self._asked = self._clock()
        answer = self._slurm.jobs(ids_with_links([self.id], self._place))
        self._cases = tuple(find_cases([self.id], answer, self._place))
        self._answered = self._clock()
        if _are_told(self._cases) or not _are_over(self._cases):
            self._heard = self._answered
        if self.directory is None and self._cases[0].run is not None:
            self.directory = self._cases[0].run.directory
        return self._cases

    def _looks(self, timeout: float | None) -> Iterator[tuple[JobCase, ...]]:
        """Look until it is over; a controller that is silent for a while is asked again."""
        end = None if timeout is None else self._clock() + timeout
        while True:
            try:
                cases = self._look()
            except SchedulerSilent:
                if self._clock() - self._answered > _SILENT_FOR_S:
                    raise
            else:
                # Accounting may still tell how it ended: until then it is not said that the end is unknown.
                is_told = _are_told(cases) or (_are_over(cases) and self._clock() - self._heard > _SILENT_FOR_S)
                if is_told or not _are_over(cases):
                    yield cases
                if is_told:
                    return
            self._rest(end, timeout)

    def _rest(self, end: float | None, timeout: float | None) -> None:
        pause = self._pause()
        seconds_left = pause if end is None else end - self._clock()
        if seconds_left <= 0:
            raise TookTooLong(self.id, timeout or 0)
        self._sleep(min(pause, seconds_left))

    def _pause(self) -> float:
        return max(0.0, (self._asked or 0.0) + ASK_EVERY_S - self._clock())


def _are_over(cases: tuple[JobCase, ...]) -> bool:
    return all(case.phase.is_over for case in cases)


def _are_told(cases: tuple[JobCase, ...]) -> bool:
    return all(case.is_told for case in cases)


def _most_telling(cases: tuple[JobCase, ...]) -> JobCase:
    return min(cases, key=lambda case: _FIRST.index(_state(case).phase))


def _task_number(case: JobCase) -> int:
    task = (case.asked if case.job is None else case.job.shown_id).partition("_")[2]
    return int(task) if task.isdigit() else 0


def _state(case: JobCase) -> State:
    return State("UNKNOWN", case.phase, case.heard.sentence) if case.job is None else case.job.state


def _result(case: JobCase) -> Result:
    state, job = _state(case), case.job
    name = case.asked if job is None else job.shown_id
    status = None if job is None or not job.node_list else job.status
    directory = None if case.run is None else case.run.directory
    row = None if case.run is None else row_of_task(case.run, name.partition("_")[2])
    if state.phase is Phase.ENDED_WELL:
        return Result(name, state, status, directory=directory, row=row)
    output = _output(case)
    return ended_badly(name, state, status, output, None if output is None else first_failure(output), directory, row)


def _output(case: JobCase) -> JobOutput | None:
    return find_output(case.job, case.run, case.asked)


def _event(case: JobCase, *, is_over: bool) -> Event | None:
    """Return what the job does now; None for a state of Slurm's that Muster does not know."""
    state, job = _state(case), case.job
    if is_over:
        return Ended(case.asked, state, _result(case))
    if job is not None and state.phase is Phase.WAITING:
        reason = job.reason
        return Pending(job.shown_id, state, reason.code, reason.sentence, reason.remedy_for(job.id), job.started)
    return None


def _run_of(case: JobCase) -> Running | None:
    """Return that it runs, or has run since the last look; None for a job that never had its nodes."""
    state, job = _state(case), case.job
    if job is None or not job.node_list or not (state.phase is Phase.RUNNING or state.phase.is_over):
        return None
    runs = state if state.phase is Phase.RUNNING else STATES["RUNNING"]
    return Running(job.shown_id, runs, _hosts(job.node_list), job.started)


def _is_same(event: Event, last: Event | None) -> bool:
    """Return whether nothing happened in between: Slurm's estimate of the start moves all the time."""
    if isinstance(event, Pending) and isinstance(last, Pending):
        return (event.state.name, event.reason) == (last.state.name, last.reason)
    if isinstance(event, Running) and isinstance(last, Running):
        began = None if last.started is None or event.started is None else event.started - last.started
        return (event.state.name, event.nodes) == (last.state.name, last.nodes) and not began
    return False


def _hosts(node_list: str | None) -> tuple[str, ...]:
    try:
        return tuple(expand(node_list or ""))
    except HostlistError:
        return (node_list or "",)
