"""Queue a plan: run directory first, then `sbatch --test-only`, then sbatch; never the same submission twice."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from muster.act.output_folder import make_output_folders
from muster.act.record import Run, find_run, make_run_directory, record_of, register, write_whole
from muster.act.snapshot import copy_project
from muster.errors import MachineLacks, MusterError, NoSlurm, RequestError, SchedulerSilent, SiteError
from muster.model.digest import digest_of
from muster.model.plan import SNAPSHOT_HERE, Output, Plan
from muster.plan.secret import hidden_values, without_values
from muster.rank.hostlist import expand
from muster.render.document import plan_as_json
from muster.render.script import job_script
from muster.runner import MUNGE_HINT, MUNGE_IS_DOWN, ProgramResult, Runner, munge_is_down, run
from muster.slurm.fit import NODES, Misfit, Wanted, find_misfit
from muster.slurm.silence import is_silent, last_words
from muster.slurm.submit import (
    array_indices,
    ask_to_queue,
    ask_to_queue_link,
    ask_whether_taken,
    is_without_cluster,
    parse_rejection,
)
from muster.slurm.variables import scheduler_environment
from muster.units import parse_memory_mib

_LOOKS = 5
# A submission that was never answered is looked for this long when it is typed again.
_PENDING_S = 3600


class Submitted(msgspec.Struct, frozen=True):
    """A queued job, and where its run directory lies."""

    job: str
    directory: Path
    adopted: bool
    """The controller had taken it although sbatch was not told so."""


def submit(
    plan: Plan,
    *,
    digest: str,
    parent: Path,
    state: Path,
    cluster: str,
    environment: Mapping[str, str],
    runner: Runner = run,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = 30.0,
) -> Submitted:
    """Queue the plan's script and remember where its run directory lies."""
    make_output_folders(plan)
    clean = scheduler_environment(environment)
    pending = _pending_file(state, digest)
    unanswered = _unanswered(state, digest)
    if unanswered is not None:
        job = _find(digest, state, cluster, clean, runner)
        if job is not None:
            say(f"an earlier submission of this very job had no answer, but the controller has it: job {job}")
            return _remember(Submitted(job, unanswered, adopted=True), plan, state, cluster)
    record, changes = record_of(plan.typed, environment, plan.working_directory, image=plan.image.image, runner=runner)
    hidden = hidden_values(plan)
    files = {
        "plan.json": plan_as_json(plan),
        "job.sh": job_script(plan),
        "record.json": json.dumps(record, indent=2) + "\n",
        **({"changes.diff": without_values(changes, hidden.values())} if changes else {}),
    }
    directory = make_run_directory(parent, plan.job_name, files, fill=partial(_fill, plan, runner))
    if hidden:
        passed_file = f"{directory}/{'task-N/' if _array(plan) else ''}passed"
        say(f"{', '.join(hidden)}: the values lie in {passed_file} for you alone, until the job has read them")
    script = str(directory / "job.sh")
    output = None if plan.output is Output.MOVED else str(directory / _task_folder(plan) / "logs" / "batch.log")
    try:
        trial = partial(_ask, runner, ask_whether_taken(script).argv, clean, plan, timeout_s)
        check_taken(trial, partial(misfit_of, plan, runner, clean), say)
    except (MusterError, KeyboardInterrupt) as error:
        shutil.rmtree(directory, ignore_errors=True)  # nothing was queued
        if isinstance(error, MachineLacks) and error.part == "sbatch":
            raise NoSlurm("sbatch", is_installed=False) from None
        raise
    write_whole(pending, json.dumps({"directory": str(directory), "asked": time.time()}), mode=0o600)
    try:
        question = ask_to_queue(script, output=output)
        answer = _ask(runner, question.argv, clean, plan, timeout_s)
        queued = question.read(answer.stdout) if answer.ok else None
    except (SchedulerSilent, SiteError):  # no word in time, or no job id
        answer, queued = None, None
    if answer is None or _no_answer(answer):
        job = _wait_for(digest, state, cluster, clean, runner, say)
        return _remember(Submitted(job, directory, adopted=True), plan, state, cluster)
    pending.unlink(missing_ok=True)
    if queued is None:
        shutil.rmtree(directory, ignore_errors=True)  # it was refused
        raise _refusal(answer, None)
    submission = _remember(Submitted(queued.job, directory, adopted=False), plan, state, queued.cluster or cluster)
    if plan.finish is not None and plan.finish.links_ahead:
        queue_links(plan, submission, lambda argv: _ask(runner, argv, clean, plan, timeout_s), say)
    return submission


def _links(plan: Plan) -> int:
    return 0 if plan.finish is None else plan.finish.links


def queue_links(
    plan: Plan, first: Submitted, ask: Callable[[Sequence[str]], ProgramResult], say: Callable[[str], None]
) -> None:
    """Queue all links of a job at once, each after the end of the one before it; of an array, those of each task."""
    script = first.directory / "job.sh"
    count = 0
    for index in array_indices(_array(plan) or "") or (None,):
        folder = first.directory if index is None else first.directory / f"task-{index}"
        task = "" if index is None else f"_{index}"
        job_before = f"{first.job}{task}"
        lines = [f"1\t{job_before}\t{int(time.time())}\n"]
        for link in range(2, _links(plan) + 1):
            output = None if plan.output is Output.MOVED else str(folder / "logs" / "batch.log")
            question = ask_to_queue_link(str(script), link, str(folder), after=job_before, task=index, output=output)
            answer = ask(question.argv)
            if not answer.ok:
                say(f"warning: link {link} of the job is not queued: {parse_rejection(answer.stderr).sentence}")
                break
            job_before = f"{question.read(answer.stdout).job}{task}"
            lines.append(f"{link}\t{job_before}\t{int(time.time())}\n")
            count += 1
        write_whole(folder / "links", "".join(lines))
    say(f"jobs cannot queue any at this site: {count} more wait, each for the end of the one before it")


def _pending_file(state: Path, digest: str) -> Path:
    """Return where a submission stands until it is answered; nothing is queued that could not be remembered."""
    pending = state / "pending" / f"{digest}.json"
    probe = pending.with_suffix(".probe")
    try:
        pending.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state / "jobs").mkdir(exist_ok=True)
        write_whole(probe, "a line, so that a full disk says so\n", mode=0o600)
        probe.unlink()
    except OSError as error:
        raise RequestError(
            f"Muster cannot remember the job in {state}: {error.strerror}",
            hint="name another place: XDG_STATE_HOME=DIRECTORY",
        ) from None
    return pending


def _fill(plan: Plan, runner: Runner, directory: Path) -> None:
    if plan.snapshot:
        copy_project(plan.working_directory, directory, runner=runner)
    if not _tasks(plan):
        hand_over(plan, directory)
    for index in _tasks(plan):
        task = directory / f"task-{index}"
        (task / "logs").mkdir(mode=0o700, parents=True)
        if plan.sweep is not None:
            write_whole(task / "row.json", json.dumps(plan.sweep.row(index), ensure_ascii=False) + "\n")
        hand_over(plan, task)
        if plan.snapshot:
            (task / SNAPSHOT_HERE).symlink_to(f"../{SNAPSHOT_HERE}")


def _tasks(plan: Plan) -> Sequence[int]:
    """Return the numbers that have a folder of their own: the tasks of an array, or the rows of its table."""
    return array_indices(_array(plan) or "") if plan.sweep is None else range(1, len(plan.sweep.rows) + 1)


def hand_over(plan: Plan, directory: Path) -> None:
    """Write the plan's hidden values where its job will read them, for nobody else."""
    values = hidden_values(plan)
    if values:
        write_whole(directory / "passed", "".join(f"{name}={value}\0" for name, value in values.items()))


def _array(plan: Plan) -> str | None:
    return next((directive.value for directive in plan.directives if directive.name == "array"), None)


def _task_folder(plan: Plan) -> str:
    """Return the directory of a task of an array: tasks run side by side, on the same nodes too."""
    return "" if _array(plan) is None else "task-%a"


def _ask(
    runner: Runner, argv: Sequence[str], environment: Mapping[str, str], plan: Plan, timeout_s: float
) -> ProgramResult:
    return runner(argv, env=environment, cwd=plan.working_directory, timeout_s=timeout_s)


def _no_answer(answer: ProgramResult) -> bool:
    """Return whether sbatch ended without a word of the controller's: the job may be queued."""
    return answer.status < 0 or (not answer.ok and is_silent(answer.stderr))


def accepted(answer: ProgramResult) -> None:
    """Return where sbatch agreed; raise what it said, as a sentence and a hint, where it did not."""
    if not answer.ok:
        raise _refusal(answer, None)


def check_taken(
    ask: Callable[[], ProgramResult], explain: Callable[[], Misfit | None], say: Callable[[str], None]
) -> None:
    """Return where sbatch would take the job; say what it will wait for. Raise what sbatch said where it never would.

    `explain` finds the number that does not fit: Slurm only says that something does not. A trial is refused for nodes
    that are down too, but sbatch itself queues the job until they are back.
    """
    misfit = None
    for pause_s in (0, 1):  # a node that was away for a moment is back when it is looked for: Slurm is asked once more
        time.sleep(pause_s)
        answer = ask()
        if answer.ok:
            return
        if is_without_cluster(answer.stderr) or not parse_rejection(answer.stderr).is_of_nodes:
            break
        misfit = explain()
        if misfit is not None and misfit.may_pass:
            say(f"warning: the job waits: {misfit.sentence}; {misfit.hint}")
            return
        if misfit is not None:
            break
    raise _refusal(answer, misfit)


def _refusal(answer: ProgramResult, misfit: Misfit | None) -> MusterError:
    if is_without_cluster(answer.stderr):
        return NoSlurm("sbatch", is_installed=True)
    if is_silent(answer.stderr) or answer.status < 0 or not answer.stderr.strip():
        return silence_of(answer.argv[0], answer.status, answer.stderr)
    rejection = parse_rejection(answer.stderr)
    if misfit is None:
        return SiteError(rejection.sentence, hint=rejection.hint)
    return SiteError(f"Slurm refuses the job: {misfit.sentence} ({rejection.reason})", hint=misfit.hint)


def silence_of(program: str, status: int, stderr: str) -> SchedulerSilent:
    """Return the error for a client that brought no answer: how it ended, and what to try."""
    if munge_is_down():
        return SchedulerSilent(f"the Slurm controller does not answer: {MUNGE_IS_DOWN}", hint=MUNGE_HINT)
    return SchedulerSilent(
        f"the Slurm controller does not answer: {program} {last_words(status, stderr)}",
        hint="try again in a minute: scontrol ping says whether a controller answers",
    )


def misfit_of(plan: Plan, runner: Runner, environment: Mapping[str, str]) -> Misfit | None:
    """Ask for the nodes of the partition, and return what the plan asks for that they do not have."""
    try:
        answer = runner(NODES.argv, env=environment, timeout_s=20)
    except MusterError:
        return None  # what sbatch said is still true
    return find_misfit(_wanted(plan), NODES.read(answer.stdout)) if answer.ok else None


def _wanted(plan: Plan) -> Wanted:
    header = {directive.name: directive.value or "" for directive in plan.directives}
    shape = plan.shape
    return Wanted(
        nodes=int(header.get("nodes", shape.nodes)),
        spares=plan.finish.spares if plan.finish is not None else 0,
        cpus=shape.ntasks_per_node * (shape.cpus_per_task or 1),
        gpus=shape.gpus_per_node,
        memory_mib=parse_memory_mib(header["mem"]) if header.get("mem", "0") != "0" else 0,
        partitions=tuple(filter(None, header.get("partition", "").split(","))),
        named=tuple(expand(header.get("nodelist", ""))),
        excluded=tuple(expand(header.get("exclude", ""))),
    )


def _remember(submission: Submitted, plan: Plan, state: Path, cluster: str) -> Submitted:
    digest = digest_of(plan)
    run = Run(
        job=submission.job,
        directory=submission.directory,
        name=plan.job_name,
        cluster=cluster,
        submitted=int(time.time()),
        digest=digest,
        moved=plan.output is Output.MOVED,
        requeues=_links(plan) > 0 or any(directive.name == "requeue" for directive in plan.directives),
        links=_links(plan),
        rows_per_job=0 if plan.pack is None else plan.pack.rows,
    )
    register(state, run)
    (state / "pending" / f"{digest}.json").unlink(missing_ok=True)
    write_whole(submission.directory / "job_id", f"{submission.job}\n")
    return submission


def _unanswered(state: Path, digest: str) -> Path | None:
    """Return the run directory of the same submission, if the last attempt had no answer."""
    try:
        entry = json.loads((state / "pending" / f"{digest}.json").read_text(encoding="utf-8"))
        recent = time.time() - float(entry["asked"]) < _PENDING_S
        return Path(entry["directory"]) if recent and Path(entry["directory"]).is_dir() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find(digest: str, state: Path, cluster: str, environment: Mapping[str, str], runner: Runner) -> str | None:
    """Return the youngest job whose comment names this launch and that was never reported.

    The others are earlier ones.
    """
    from muster.slurm.jobs import ask_comments

    question = ask_comments()
    answer = runner(question.argv, env=environment, timeout_s=20)
    rows = question.read(answer.stdout)
    if not answer.ok or (answer.stdout.strip() and not rows):
        raise silence_of(answer.argv[0], answer.status, answer.stderr)
    own_jobs = [job for job, comment in rows if comment == f"muster:{digest}"]
    return max((job for job in own_jobs if not _is_known(state, job, cluster, digest)), key=int, default=None)


def _is_known(state: Path, job: str, cluster: str, digest: str) -> bool:
    """Return whether this job is remembered, and not one of the same number on another cluster."""
    run = find_run(state, job, cluster)
    try:
        return run is not None and f"muster:{digest}" in (run.directory / "job.sh").read_text(encoding="utf-8")
    except OSError:
        return False


def _wait_for(
    digest: str, state: Path, cluster: str, environment: Mapping[str, str], runner: Runner, say: Callable[[str], None]
) -> str:
    """Return the job that the controller took without an answer from sbatch: look before anybody submits again."""
    say("sbatch had no answer; looking whether the controller has taken the job")
    for attempt in range(_LOOKS):
        time.sleep(2**attempt)
        try:
            job = _find(digest, state, cluster, environment, runner)
        except SchedulerSilent:
            continue
        if job is not None:
            return job
    raise SchedulerSilent(
        "the controller did not say whether it has taken the job",
        hint="type the same command again later: Muster looks for the job before it queues it again",
    )
