"""Queue a plan: run directory first, then `sbatch --test-only`, then sbatch; never the same submission twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import msgspec

from muster.act.output_folder import make_output_folders
from muster.act.record import Run, find_run, register, write_whole
from muster.act.refusal import check_taken, misfit_of, refusal_of, silence_of
from muster.act.run_folder import array_of, batch_log, make_run_folder
from muster.errors import MachineLacks, MusterError, NoSlurm, RequestError, SchedulerSilent, SiteError
from muster.model.digest import digest_of
from muster.model.plan import Output, Plan
from muster.plan.secret import hidden_values
from muster.runner import ProgramResult, Runner, run
from muster.slurm.silence import is_silent
from muster.slurm.submit import (
    JobId,
    array_indices,
    ask_to_queue,
    ask_to_queue_link,
    ask_whether_taken,
    parse_rejection,
)
from muster.slurm.variables import scheduler_environment

_LOOKS = 5
# A submission that was never answered is looked for this long when it is typed again.
_PENDING_S = 3600


class Submitted(msgspec.Struct, frozen=True):
    """A queued job, and where its run directory lies."""

    job: str
    directory: Path
    adopted: bool
    """The controller had taken it although sbatch was not told so."""


class Submission(msgspec.Struct, dict=True):
    """One plan on its way into the queue."""

    plan: Plan
    parent: Path
    """The folder in which the run directory is made."""

    state: Path
    """The folder in which Muster remembers the jobs of this user."""

    cluster: str
    environment: Mapping[str, str]
    """The environment of whoever submits: the record names its variables, and Slurm's clients get a clean copy."""

    runner: Runner = run
    say: Callable[[str], None] = lambda _: None
    timeout_s: float = 30.0
    """How long sbatch may be silent."""

    def queue(self) -> Submitted:
        """Queue the plan's script and remember where its run directory lies."""
        make_output_folders(self.plan, self.runner)
        self._check_memory()
        unanswered = self._unanswered()
        earlier_job = None if unanswered is None else self._find_job()
        if unanswered is not None and earlier_job is not None:
            self.say(
                f"an earlier submission of this very job had no answer, but the controller has it: job {earlier_job}"
            )
            return self._remember(Submitted(earlier_job, unanswered, adopted=True))
        directory = make_run_folder(self.plan, self.parent, self.environment, self.runner)
        self._tell_of_hidden_values(directory)
        self._check_taken(directory)
        queued = self._queue_script(directory)
        if queued is None:
            return self._remember(Submitted(self._wait_for_job(), directory, adopted=True))
        submission = self._remember(Submitted(queued.job, directory, adopted=False), queued.cluster)
        if self.plan.finish is not None and self.plan.finish.links_ahead:
            self._queue_links(submission)
        return submission

    @cached_property
    def _digest(self) -> str:
        return digest_of(self.plan)

    @cached_property
    def _clean(self) -> Mapping[str, str]:
        """Return the environment for Slurm's clients."""
        return scheduler_environment(self.environment)

    @property
    def _pending(self) -> Path:
        """Return the file in which a submission stands until it is answered."""
        return self.state / "pending" / f"{self._digest}.json"

    @property
    def _links(self) -> int:
        return 0 if self.plan.finish is None else self.plan.finish.links

    def _ask(self, argv: Sequence[str]) -> ProgramResult:
        """Return the answer of sbatch, which reads paths from the working directory of the plan."""
        return self.runner(argv, env=self._clean, cwd=self.plan.working_directory, timeout_s=self.timeout_s)

    def _check_memory(self) -> None:
        """Refuse a state folder that cannot be written: no job is queued that could not be remembered."""
        probe = self._pending.with_suffix(".probe")
        try:
            probe.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.state / "jobs").mkdir(exist_ok=True)
            write_whole(probe, "a line, so that a full disk says so\n", mode=0o600)
            probe.unlink()
        except OSError as error:
            raise RequestError(
                f"Muster cannot remember the job in {self.state}: {error.strerror}",
                hint="name another place: XDG_STATE_HOME=DIRECTORY",
            ) from None

    def _unanswered(self) -> Path | None:
        """Return the run directory of the same submission, if the last attempt had no answer."""
        try:
            entry = json.loads(self._pending.read_text(encoding="utf-8"))
            recent = time.time() - float(entry["asked"]) < _PENDING_S
            return Path(entry["directory"]) if recent and Path(entry["directory"]).is_dir() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _tell_of_hidden_values(self, directory: Path) -> None:
        hidden = hidden_values(self.plan)
        if hidden:
            passed_file = f"{directory}/{'task-N/' if array_of(self.plan) else ''}passed"
            self.say(f"{', '.join(hidden)}: the values lie in {passed_file} for you alone, until the job has read them")

    def _check_taken(self, directory: Path) -> None:
        """Return where Slurm would take the script; else raise why not, and remove the run directory."""
        trial = partial(self._ask, ask_whether_taken(str(directory / "job.sh")).argv)
        try:
            check_taken(trial, partial(misfit_of, self.plan, self.runner, self._clean), self.say)
        except (MusterError, KeyboardInterrupt) as error:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)  # nothing was queued
            if isinstance(error, MachineLacks) and error.part == "sbatch":
                raise NoSlurm("sbatch", is_installed=False) from None
            raise

    def _queue_script(self, directory: Path) -> JobId | None:
        """Return the job that sbatch names; None where the controller gave no answer, so that it may be queued.

        A refusal is raised, and the run directory is removed.
        """
        write_whole(self._pending, json.dumps({"directory": str(directory), "asked": time.time()}), mode=0o600)
        # Tasks of an array run side by side, on the same nodes too: each has a folder of its own.
        folder = directory / ("" if array_of(self.plan) is None else "task-%a")
        question = ask_to_queue(str(directory / "job.sh"), output=batch_log(self.plan, folder))
        try:
            answer = self._ask(question.argv)
            queued = question.read(answer.stdout) if answer.ok else None
        except SiteError:  # no word in time, or no job id
            return None
        if _is_no_answer(answer):
            return None
        self._pending.unlink(missing_ok=True)
        if queued is None:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)  # it was refused
            raise refusal_of(answer)
        return queued

    def _queue_links(self, first: Submitted) -> None:
        """Queue all links of the job at once, each after the end of the link before it.

        Each task of an array has links of its own.
        """
        count = 0
        for index in array_indices(array_of(self.plan) or "") or (None,):
            folder = first.directory if index is None else first.directory / f"task-{index}"
            suffix = "" if index is None else f"_{index}"
            lines = [f"1\t{first.job}{suffix}\t{int(time.time())}\n"]
            for link, job in self._links_of_task(first, folder, index):
                lines.append(f"{link}\t{job}\t{int(time.time())}\n")
                count += 1
            write_whole(folder / "links", "".join(lines))
        self.say(f"jobs cannot queue any at this site: {count} more wait, each for the end of the one before it")

    def _links_of_task(self, first: Submitted, folder: Path, index: int | None) -> Iterator[tuple[int, str]]:
        """Queue the links of one task, and yield the number and the job of each; end at the first that is refused."""
        script, output = str(first.directory / "job.sh"), batch_log(self.plan, folder)
        suffix = "" if index is None else f"_{index}"
        job_before = f"{first.job}{suffix}"
        for link in range(2, self._links + 1):
            question = ask_to_queue_link(script, link, str(folder), after=job_before, task=index, output=output)
            answer = self._ask(question.argv)
            if not answer.ok:
                self.say(f"warning: link {link} of the job is not queued: {parse_rejection(answer.stderr).sentence}")
                return
            job_before = f"{question.read(answer.stdout).job}{suffix}"
            yield link, job_before

    def _remember(self, submission: Submitted, cluster: str | None = None) -> Submitted:
        run_record = Run(
            job=submission.job,
            directory=submission.directory,
            name=self.plan.job_name,
            cluster=cluster or self.cluster,
            submitted=int(time.time()),
            digest=self._digest,
            moved=self.plan.output is Output.MOVED,
            requeues=self._links > 0 or any(directive.name == "requeue" for directive in self.plan.directives),
            links=self._links,
            rows_per_job=0 if self.plan.pack is None else self.plan.pack.rows,
        )
        register(self.state, run_record)
        self._pending.unlink(missing_ok=True)
        write_whole(submission.directory / "job_id", f"{submission.job}\n")
        return submission

    def _find_job(self) -> str | None:
        """Return the youngest job whose comment names this launch and that was never reported.

        The others are earlier ones.
        """
        from muster.slurm.jobs import ask_comments

        question = ask_comments()
        answer = self.runner(question.argv, env=self._clean, timeout_s=20)
        rows = question.read(answer.stdout)
        if not answer.ok or (answer.stdout.strip() and not rows):
            raise silence_of(answer.argv[0], answer.status, answer.stderr)
        own_jobs = [job for job, comment in rows if comment == f"muster:{self._digest}"]
        return max((job for job in own_jobs if not self._is_known(job)), key=int, default=None)

    def _is_known(self, job: str) -> bool:
        """Return whether this job is remembered, and not one of the same number on another cluster."""
        known_run = find_run(self.state, job, self.cluster)
        try:
            return known_run is not None and f"muster:{self._digest}" in (known_run.directory / "job.sh").read_text(
                encoding="utf-8"
            )
        except OSError:
            return False

    def _wait_for_job(self) -> str:
        """Return the job that the controller took without an answer from sbatch: look before anybody submits again."""
        self.say("sbatch had no answer; looking whether the controller has taken the job")
        for attempt in range(_LOOKS):
            time.sleep(2**attempt)
            try:
                job = self._find_job()
            except SchedulerSilent:
                continue
            if job is not None:
                return job
        raise SchedulerSilent(
            "sbatch named no job: the controller did not say whether it has taken one",
            hint="type the same command again later: Muster looks for the job before it queues it again",
        )


def _is_no_answer(answer: ProgramResult) -> bool:
    """Return whether sbatch ended without a word of the controller's: the job may be queued."""
    return answer.status < 0 or (not answer.ok and is_silent(answer.stderr))
