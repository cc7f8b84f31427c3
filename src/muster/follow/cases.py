"""The jobs that an id means: what Slurm knows of each, beside our own record of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.errors import RequestError, SchedulerSilent
from muster.follow.heard import Accounting, Heard
from muster.follow.packs import holds, job_of_row, jobs_of_rows, neighbours_of, tasks_of
from muster.slurm.states import Phase

if TYPE_CHECKING:  # a page of help needs none of these
    from pathlib import Path

    from muster.act.record import Run
    from muster.follow.scheduler import Answer, Scheduler
    from muster.slurm.jobs import SlurmJob


class JobCase(NamedTuple):
    """One job that was asked about: what Slurm knows of it, and our own record."""

    asked: str
    job: SlurmJob | None
    run: Run | None
    link: int = 0
    """Which link of a job that goes on in the next one `job` is; 0: it is none."""

    links: tuple[str, ...] = ()
    """The ids of the links that live."""

    heard: Heard = Heard()
    """Who answered: what is known where `job` is None."""

    @property
    def phase(self) -> Phase:
        """Return where in its life the job is."""
        return self.heard.phase if self.job is None else self.job.state.phase

    @property
    def is_told(self) -> bool:
        """Return whether the job is over, and to ask again would tell no more of its end."""
        if self.phase is Phase.ENDED:
            return self.job is None and self.heard.is_final
        return self.phase.is_over

    @property
    def is_waiting(self) -> bool:
        """Return whether Slurm holds the job in its queue."""
        return self.job is not None and self.job.state.phase is Phase.WAITING

    @property
    def shown_id(self) -> str:
        """Return the job's id as squeue shows it, 57_3; as it was asked for where Slurm does not know the job."""
        return self.asked if self.job is None else self.job.shown_id

    @property
    def id_to_type(self) -> str:
        """Return the id that means this job alone: of an array, that of its task."""
        return self.shown_id if "_" in self.shown_id and "_" not in self.asked else self.asked

    @property
    def task(self) -> str | None:
        """Return the one task of an array that the case is about; None: no single one is."""
        task = self.shown_id.partition("_")[2]
        return task if task.isdigit() else None

    @property
    def row(self) -> dict[str, str] | None:
        """Return the row of the sweep that the task has."""
        from muster.follow.row import row_of_task

        return None if self.run is None or self.task is None else row_of_task(self.run, self.task)

    @property
    def attempt(self) -> int:
        """Return which attempt of the job the newest is, from 1 on."""
        from muster.follow.attempt_list import read_attempts

        attempts = [] if self.folder is None else read_attempts(self.folder)
        return max((attempt.number for attempt in attempts), default=1)

    @property
    def reported_hang(self) -> str | None:
        """Return what the job's own watcher has found last, if it has."""
        from muster.act.record import written_lines
        from muster.follow.hang_report import HANG_REPORT

        lines = [] if self.folder is None else written_lines(self.folder / HANG_REPORT)
        return lines[-1] if lines else None

    @property
    def folder(self) -> Path | None:
        """Return where the job, or one task of an array, keeps its attempts and what its watcher has found."""
        from muster.follow.attempt_list import folder_of

        return None if self.run is None else folder_of(self.run, self.task)

    def files_of_ends(self) -> list[tuple[str, Path]]:
        """Return the nodes of the newest attempt, each with the file in which its ranks write their ends."""
        from muster.follow.attempt_list import read_attempts
        from muster.rank.hostlist import expand

        if self.folder is None:
            return []
        # JOB.SECONDS.PID
        starts = sorted((self.folder / "ranks").glob("*.*.*"), key=lambda folder: folder.name.split(".")[-2])
        attempts = read_attempts(self.folder)
        nodes = (attempts[-1].nodes if attempts else "") or (self.job.node_list if self.job else "") or ""
        number = self.attempt
        return [(host, starts[-1] / f"{number}.{node}") for node, host in enumerate(expand(nodes)) if starts]

    def earlier_runs(self) -> list[str]:
        """Return which run of a requeued job this is, and how those before it ended: a sentence each."""
        from muster.follow.attempts import ends_of_earlier, own_word_of_end

        if self.run is None:
            return []
        sentences = [f"link {self.link} of at most {self.run.links}"] if self.link else []
        sentences += ends_of_earlier(self.run, self.task, waits=self.is_waiting)
        if self.job is None:
            sentences += own_word_of_end(self.run, self.task)
        if self.is_cut_short:
            cut = "no link follows, and its ranks ended because they were told to save"
            sentences.append(f"{cut}: the work may not be done (--links)")
        return sentences

    @property
    def is_cut_short(self) -> bool:
        """Return whether the last link that may be was told to save, and ended well: more may be to do."""
        from muster.follow.attempt_list import read_ends

        if self.folder is None or self.run is None or not self.link or self.link < self.run.links:
            return False
        ends = read_ends(self.folder)
        return self.phase.is_over and bool(ends) and ends[-1].decision == "saved"

    def attempts_over(self) -> list[dict[str, Any]]:
        """Return the attempts that are over, if the job may run again, in their order, as JSON has them."""
        from muster.follow.attempts import attempts_over

        return [] if self.run is None else attempts_over(self.run, self.task, waits=self.is_waiting)


class JobSources(NamedTuple):
    """Where jobs are looked for: Slurm, our own records, and the cluster that Slurm's clients reach, by its name."""

    slurm: Scheduler
    state: Path
    cluster: str


def find_cases(ids: Sequence[str], answer: Answer, place: JobSources, *, records_do: bool = False) -> list[JobCase]:
    """Return what is known of each id. An unknown id is refused; so is silence, unless records are enough."""
    return [case for asked_id in ids for case in _cases_of(asked_id, answer, place, records_do=records_do)]


def _cases_of(asked_id: str, answer: Answer, place: JobSources, *, records_do: bool) -> Iterator[JobCase]:
    """Yield what is known of one id."""
    chained = _run_with_chain(asked_id, place)
    if chained is not None:
        chain_cases = tuple(_of_chains(asked_id, chained, answer))
        yield from chain_cases
        if chain_cases:
            return
        # The records keep a job under the id of its first link.
        task = _task_of(asked_id, chained)
        asked_id = f"{chained.job}_{task}" if task else chained.job
    jobs = answer.of(job_of_row(asked_id, _run_with_rows(asked_id, place)))
    run = run_of(asked_id, jobs, place, is_silent=answer.silent)
    if not jobs and run is None:
        raise _unknown(asked_id, answer, place.slurm)
    if not jobs and answer.silent and not records_do:
        raise _silent(asked_id, run, answer)
    heard = answer.heard
    forgotten_ids: list[str] = []
    if run is not None and "_" not in asked_id:
        jobs, heard = _with_forgotten_tasks(run, jobs, answer, place) if jobs else (jobs, heard)
        forgotten_ids = [f"{run.job}_{task}" for task in _tasks_not_in(run, jobs)]
    elif run is not None and not jobs:
        _check_task(asked_id, run)
    if run is not None and run.rows_per_job:
        jobs = tuple(jobs_of_rows(asked_id, run, jobs))
    lone: tuple[SlurmJob | None, ...] = () if forgotten_ids else (None,)
    yield from (JobCase(asked_id, job, run, heard=answer.heard) for job in jobs or lone)
    yield from (JobCase(task_id, None, run, heard=heard) for task_id in forgotten_ids)


def _check_task(asked_id: str, run: Run) -> None:
    """Refuse the number of a task that an array never had."""
    tasks, task = tasks_of(run), asked_id.partition("_")[2]
    if tasks and task.isdigit() and int(task) not in tasks:
        hint = f"it has {len(tasks)}, from {tasks[0]} to {tasks[-1]}: muster status {run.job} shows them"
        raise RequestError(f"job {run.job} has no task {task}", hint=hint)


def _with_forgotten_tasks(
    run: Run, jobs: tuple[SlurmJob, ...], answer: Answer, place: JobSources
) -> tuple[tuple[SlurmJob, ...], Heard]:
    """Return the tasks of an array, with those that accounting alone knows; and who was heard of the others.

    The controller forgets one task after the other.
    """
    from muster.act.record import is_of

    first_rows = {neighbours_of(task, run).start for task in _tasks_not_in(run, jobs)}
    if not first_rows or answer.silent:
        return jobs, answer.heard
    accounted = place.slurm.jobs([f"{run.job}_{task}" for task in sorted(first_rows)])
    known = {job.shown_id for job in jobs}
    more_jobs = (job for job in accounted.jobs if job.shown_id not in known and is_of(run, job))
    return (*jobs, *more_jobs), accounted.heard


def _tasks_not_in(run: Run, jobs: Sequence[SlurmJob]) -> list[int]:
    """Return the tasks of an array, or the rows of a sweep, that none of these jobs is or holds."""
    return [task for task in tasks_of(run) if not any(holds(job, neighbours_of(task, run).start) for job in jobs)]


def ids_with_links(ids: Sequence[str], place: JobSources) -> tuple[str, ...]:
    """Return the ids by which Slurm knows jobs, and those of the jobs that follow them with --until-done."""
    from muster.follow.links import chains_of

    link_ids = [
        link.job
        for asked_id in ids
        if (run := _run_with_chain(asked_id, place)) is not None
        for chain in chains_of(run, _task_of(asked_id, run))
        for link in chain
    ]
    own_ids = [job_of_row(asked_id, _run_with_rows(asked_id, place)) for asked_id in ids]
    return tuple(dict.fromkeys((*own_ids, *link_ids)))


def _run_with_rows(asked_id: str, place: JobSources) -> Run | None:
    """Return the run of a sweep whose rows share jobs, by the id of any of them."""
    from muster.act.record import find_run

    run = find_run(place.state, asked_id.partition("_")[0], place.cluster)
    return run if run is not None and run.rows_per_job else None


def _run_with_chain(asked_id: str, place: JobSources) -> Run | None:
    """Return the run of a job that goes on in the next one, by the id of any of its links."""
    from muster.act.record import find_run
    from muster.follow.links import run_with_link

    first = asked_id.partition("_")[0]
    run = find_run(place.state, first, place.cluster) or run_with_link(place.state, place.cluster, first)
    return run if run is not None and run.links else None


def _task_of(asked_id: str, run: Run) -> str:
    """Return the task of an array that an id means; a later link of it has an id of its own."""
    from muster.follow.links import links_in

    array, _, task = asked_id.partition("_")
    if task or array == run.job:
        return task
    for folder in run.directory.glob("task-*"):
        if any(link.job.partition("_")[0] == array for link in links_in(folder)):
            return folder.name.partition("-")[2]
    return ""


def _of_chains(asked_id: str, run: Run, answer: Answer) -> Iterator[JobCase]:
    """Yield a case for each chain that an id means; nothing where Slurm has forgotten all links."""
    from muster.act.record import is_of
    from muster.follow.attempt_list import folder_of, leaves_the_rest
    from muster.follow.links import chains_of, current_of

    for chain in chains_of(run, _task_of(asked_id, run)):
        jobs = {link.job: [job for job in answer.of(link.job) if is_of(run, job)] for link in chain}
        goes_on = leaves_the_rest(folder_of(run, chain[0].job.partition("_")[2] or None))
        current = current_of(chain, [job for link_jobs in jobs.values() for job in link_jobs], goes_on=goes_on)
        if current is not None:
            living = (link for link, link_jobs in jobs.items() if any(not job.state.phase.is_over for job in link_jobs))
            yield JobCase(asked_id, current[1], run, current[0], tuple(living), answer.heard)


def run_of(asked_id: str, jobs: Sequence[SlurmJob], place: JobSources, *, is_silent: bool = False) -> Run | None:
    """Return Muster's record of a job; not that of another cluster's job with the same number."""
    from muster.act.record import find_run, is_of

    run = find_run(place.state, asked_id.partition("_")[0], place.cluster)
    if run is None:
        return None
    is_another = not any(is_of(run, job) for job in jobs) if jobs else not is_silent and _comes_later(run, place.slurm)
    return None if is_another else run


def _comes_later(run: Run, slurm: Scheduler) -> bool:
    """Return whether this cluster has not yet come to that number.

    Then the job was one of a cluster that is no more.
    """
    following = slurm.next_job_id()
    return following is not None and int(run.job) >= following


def _unknown(asked_id: str, answer: Answer, slurm: Scheduler) -> Exception:
    if answer.silent:
        return _silent(asked_id, None, answer)
    following = slurm.next_job_id()
    next_words = "" if following is None else f"; the next job here gets the number {following}"
    hint = f"muster jobs lists yours{next_words}"
    subject = f"Slurm knows no job {asked_id}, or does not show it to you"
    if answer.accounting is Accounting.ANSWERED:
        return RequestError(f"{subject}, and accounting has none either", hint=hint)
    # Whether there ever was one is not known.
    return RequestError(f"{subject}; {answer.accounting.value}, and the controller forgets what has ended", hint=hint)


def _silent(asked_id: str, run: Run | None, answer: Answer) -> SchedulerSilent:
    from muster.runner import MUNGE_HINT, MUNGE_IS_DOWN, munge_is_down

    output = "" if run is None else f"; its output lies in {run.directory / 'logs'}"
    if munge_is_down():
        return SchedulerSilent(
            f"Slurm cannot be asked for job {asked_id}: {MUNGE_IS_DOWN}", hint=f"{MUNGE_HINT}{output}"
        )
    return SchedulerSilent(
        f"{answer.heard.sentence}: nothing is known of job {asked_id}",
        hint=f"try again in a minute{output}",
    )
