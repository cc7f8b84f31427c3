"""Ask Slurm about jobs and partitions: all at once, seldom, with or without accounting, and forgiving its silence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from muster.errors import CommandFailed, MachineLacks, MusterError, NoSlurm, SchedulerSilent
from muster.follow.heard import Accounting, Heard
from muster.rank.hostlist import expand
from muster.runner import ProgramResult, Runner, checked, run
from muster.slurm.cluster import CONFIGURATION, NodeState, ask_node_states, ask_nodes_out, node_state
from muster.slurm.jobs import (
    QUERY_ENVIRONMENT,
    PeakMemory,
    SlurmJob,
    ask_accounting,
    ask_controller,
    ask_details,
    ask_memory,
    ask_preemption,
    cancel_argv,
    is_accounting_absent,
    is_job_unknown,
    tell_script_argv,
)
from muster.slurm.partitions import PARTITIONS, WAITING, Partition
from muster.slurm.question import Question
from muster.slurm.silence import is_silent, last_words
from muster.slurm.states import Phase, State
from muster.slurm.submit import is_without_cluster
from muster.slurm.variables import scheduler_environment

T = TypeVar("T")

_TOLD_HINT = "muster status JOB shows it once the controller answers; it may be typed again"
_SILENT_HINT = "it may be busy or restarting; try again in a minute. muster logs ID reads the output without it"
# The user's own wishes for what these clients show: SQUEUE_STATES=R would hide what was asked for.
_FILTERS = ("SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_")

_NO_SLURM = "scontrol ping says whether a controller answers here; muster lab up makes one of your own"


class Answer(msgspec.Struct, frozen=True):
    """What is known of the jobs that were asked for."""

    jobs: tuple[SlurmJob, ...]
    missing: tuple[str, ...] = ()
    """Ids that are not known (any more)."""

    silent: bool = False
    """The controller did not answer; what is here comes from accounting."""

    accounting: Accounting = Accounting.NOT_ASKED

    @property
    def heard(self) -> Heard:
        """Return who answered."""
        return Heard(self.silent, self.accounting)

    def of(self, asked_id: str) -> tuple[SlurmJob, ...]:
        """Return the jobs that an id means: for an array's, all that is known of it."""
        return tuple(job for job in self.jobs if _means(asked_id, job))


class Scheduler(msgspec.Struct, frozen=True):
    """Slurm's clients, each started at most once per question."""

    environment: Mapping[str, str]
    runner: Runner = run
    timeout_s: float = 30.0

    def mine(self) -> Answer:
        """Return all jobs of this user that the controller remembers, in one request."""
        jobs = self._answered(ask_controller())
        if jobs is None:
            raise SchedulerSilent("squeue gave no whole answer: nothing is known of your jobs", hint=_SILENT_HINT)
        return Answer(jobs)

    def jobs(self, ids: Sequence[str]) -> Answer:
        """Return these jobs: one request to the controller; one to accounting, if it does not know them all."""
        jobs, silent = self._controller(ids)
        missing = tuple(asked_id for asked_id in ids if not any(_means(asked_id, job) for job in jobs))
        if not missing:
            return Answer(jobs, silent=silent)
        accounted, accounting = self._accounting(missing)
        jobs = (*jobs, *(_as_accounted(job, silent=silent) for job in accounted))
        missing = tuple(asked_id for asked_id in missing if not any(_means(asked_id, job) for job in jobs))
        return Answer(jobs, missing, silent, accounting)

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel these jobs in one request."""
        self._tell(cancel_argv(ids), f"whether {_jobs_in_words(ids)} cancelled")

    def tell_script(self, job: str) -> None:
        """Tell a job's script that its ranks are to save."""
        self._tell(tell_script_argv(job), f"whether the script of job {job} was told")

    def _tell(self, argv: Sequence[str], subject: str) -> None:
        """Tell Slurm something. An answer that did not come says neither yes nor no."""
        try:
            answer = self._ask(argv)
        except SchedulerSilent as error:
            raise SchedulerSilent(f"{subject} is not known: {error}", hint=_TOLD_HINT) from None
        if is_silent(answer.stderr):
            message = f"{subject} is not known: the Slurm controller does not answer"
            raise SchedulerSilent(message, hint=_TOLD_HINT)
        lines = [line for line in answer.stderr.splitlines() if not _is_over_already(line)]
        error_lines = [line for line in lines if "error:" in line]
        # scancel fails for a job that is over too, and says so.
        has_failed_silently = not answer.ok and len(lines) == len(answer.stderr.splitlines())
        if error_lines or has_failed_silently:
            words = error_lines[0] if error_lines else answer.stderr
            raise CommandFailed(answer.argv, answer.status, words, hint="muster jobs shows which jobs are yours")

    def next_job_id(self) -> int | None:
        """Return the number that the next job gets; None where the controller does not tell it."""
        next_id = (self._read(CONFIGURATION) or {}).get("NEXT_JOB_ID", "")
        return int(next_id) if re.fullmatch("[0-9]{1,12}", next_id) else None

    def version(self) -> str | None:
        """Return the controller's version; None where it does not tell it."""
        return (self._read(CONFIGURATION) or {}).get("SLURM_VERSION")

    def details(self, job: str) -> str:
        """Return the controller's own lines about a job; empty where it has none or does not answer."""
        return self._read(ask_details(job)) or ""

    def partitions(self) -> tuple[tuple[Partition, ...], dict[str, int]]:
        """Return all partitions, and how many jobs wait in each: two requests."""
        partitions, waiting = self._answered(PARTITIONS), self._answered(WAITING)
        if not partitions:
            raise SchedulerSilent("sinfo ended well, but named no partition", hint=_NO_SLURM)
        if not set(waiting) <= {partition.name for partition in partitions}:
            raise SchedulerSilent("what squeue said of the waiting jobs cannot be read", hint=_NO_SLURM)
        return partitions, waiting

    def nodes_down(self, nodes: str) -> list[str] | None:
        """Return which of these nodes are down now; None where Slurm does not tell it of all of them."""
        states = self._read(ask_node_states(nodes))
        try:
            names = expand(nodes)
        except MusterError:
            return None
        if states is None or not states.keys() >= set(names):
            return None
        return [name for name in names if re.match(r"(down|fail|error|unknown)", states[name], re.IGNORECASE)]

    def nodes_out(self, partitions: str) -> list[tuple[str, ...]]:
        """Return the nodes that take no job, their state and its reason; nothing where Slurm does not tell it."""
        return self._read(ask_nodes_out(partitions)) or []

    def states_of(self, nodes: Sequence[str]) -> dict[str, NodeState]:
        """Return what Slurm says of these nodes now; those that it does not tell of are missing."""
        states = self._read(ask_node_states(",".join(nodes))) or {}
        return {name: node_state(states[name]) for name in nodes if name in states}

    def peak_memory(self, job: str) -> PeakMemory | None:
        """Return the most memory that a task of this job used, as far as the cluster keeps accounts."""
        return self._read(ask_memory(job))

    def preempted_at(self, job: str) -> int | None:
        """Return when a job was preempted in its last run; None: it was not, or the controller does not say."""
        return self._read(ask_preemption(job))

    def _controller(self, ids: Sequence[str]) -> tuple[tuple[SlurmJob, ...], bool]:
        question = ask_controller(ids)
        try:
            answer = self._ask(question.argv)
        except SchedulerSilent:
            return (), True
        if not answer.ok and is_silent(answer.stderr):
            return (), True
        if not answer.ok and is_job_unknown(answer.stderr):
            return (), False
        jobs = question.read(checked(answer, hint=_NO_SLURM).stdout)
        return ((), True) if jobs is None else (jobs, False)

    def _accounting(self, ids: Sequence[str]) -> tuple[tuple[SlurmJob, ...], Accounting]:
        question = ask_accounting(ids)
        try:
            answer = self._ask(question.argv)
        except SchedulerSilent:
            return (), Accounting.SILENT
        except NoSlurm:
            return (), Accounting.NO_CLIENT
        if is_accounting_absent(answer.stderr):
            return (), Accounting.OFF
        jobs = question.read(answer.stdout) if answer.ok else None
        return ((), Accounting.SILENT) if jobs is None else (jobs, Accounting.ANSWERED)

    def _read(self, question: Question[T]) -> T | None:
        """Return the answer to a question that a verb can do without; None where none came."""
        try:
            answer = self._ask(question.argv)
        except MusterError:
            return None
        return question.read(answer.stdout) if answer.ok else None

    def _answered(self, question: Question[T]) -> T:
        answer = self._ask(question.argv)
        if not answer.ok and is_silent(answer.stderr):
            words = last_words(answer.status, answer.stderr)
            raise SchedulerSilent(f"the Slurm controller does not answer: {answer.argv[0]} {words}", hint=_SILENT_HINT)
        return question.read(checked(answer, hint=_NO_SLURM).stdout)

    def _ask(self, argv: Sequence[str]) -> ProgramResult:
        clean = scheduler_environment(self.environment)
        kept_environment = {name: value for name, value in clean.items() if not name.startswith(_FILTERS)}
        try:
            answer = self.runner(argv, env={**kept_environment, **QUERY_ENVIRONMENT}, timeout_s=self.timeout_s)
        except MachineLacks:
            raise NoSlurm(argv[0], is_installed=False) from None
        if not answer.ok and is_without_cluster(answer.stderr):
            raise NoSlurm(argv[0], is_installed=True)
        return answer


def pauses(first_s: float = 1.0, most_s: float = 30.0) -> Iterator[float]:
    """Return how long to wait before asking again: ever longer, so that a long job costs the controller little."""
    pause = first_s
    while True:
        yield pause
        pause = min(most_s, pause * 1.5)


# Where accounting has not heard the end of a job that the controller does not know any more.
_END_UNHEARD = State(
    "UNKNOWN",
    Phase.ENDED,
    "Slurm does not know it any more, and accounting has not heard of its end: how it ended is not known",
)


def _as_accounted(job: SlurmJob, *, silent: bool) -> SlurmJob:
    """Return a job of accounting's as what is known of it: accounting may not have heard of its end."""
    state = job.state
    if state.phase.is_over:
        return job
    if silent:
        sentence = f"{state.sentence}, as accounting heard last; the Slurm controller does not answer"
        return replace(job, state=replace(state, sentence=sentence))
    if state.phase is Phase.UNKNOWN:
        return replace(job, state=replace(state, phase=Phase.ENDED))
    return replace(job, state=_END_UNHEARD)


def _jobs_in_words(ids: Sequence[str]) -> str:
    return f"job {ids[0]} is" if len(ids) == 1 else f"the jobs {', '.join(ids)} are"


def _means(asked_id: str, job: SlurmJob) -> bool:
    """Return whether `asked` is this job, or the array (123, 123_4) that it is part of."""
    return asked_id in {job.id, job.shown_id} or job.shown_id.startswith((f"{asked_id}_", f"{asked_id}+"))


def _is_over_already(line: str) -> bool:
    return "already completing or completed" in line or "Job/step already" in line
