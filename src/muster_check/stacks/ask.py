"""Ask every node of a job, or this machine, where the ranks stand: one step more, at the side of the job's own."""

from __future__ import annotations

import os
import site
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.errors import CommandFailed, MusterError, RequestError, SchedulerSilent, SiteError
from muster.look.programs import on_path
from muster.render.parts import part
from muster.runner import Runner, end_group, run, start
from muster.slurm.allocation import step_of_job
from muster.slurm.variables import scheduler_environment
from muster_check.stacks.pulse import FORBIDDEN, NO_SPY

if TYPE_CHECKING:
    from muster.runner import Process

_PATIENCE_S = 60
_CAP_SYS_PTRACE = 19
_LOOK_S = 0.03
_SCRIPT = Path(__file__).with_name("gather.sh")


class StackQuestion(msgspec.Struct, frozen=True):
    """What is asked of the nodes."""

    spy: str | None = None
    """py-spy's path; None: no stacks."""

    rank: int | None = None
    """This rank alone."""

    rounds: int = 1
    gap_s: float = 0.0
    """The time between two rounds."""

    options: tuple[str, ...] = ()
    """Of py-spy."""

    at_once: int = 0
    """From the third round on the stacks of so many ranks of a node, in turn; 0: of all."""

    records: bool = False
    """Whether the last round brings torch's and NCCL's own records."""

    directory: Path | None = None
    """Only the ranks of the run with this directory: rows of a table may share a job."""

    late_s: float = 15.0
    """A node that answers so much later than the first does not answer."""


def find_spy(environment: Mapping[str, str]) -> str | None:
    """Return py-spy's path: where pip or the one file put it, else the one on PATH."""
    places = (
        Path(sys.executable).parent,
        Path(__file__).parents[2] / "bin",  # muster.pyz, and pip install --target
        Path(site.getuserbase()) / "bin",
    )
    own_spies = (place / "py-spy" for place in places)
    own_spy = next((spy for spy in own_spies if os.access(spy, os.X_OK)), None)
    return on_path("py-spy", environment) if own_spy is None else str(own_spy)


def why_unseen_here(environment: Mapping[str, str], proc: Path = Path("/proc")) -> str:
    """Return why no call stack can be read on this host; empty where py-spy can look."""
    if find_spy(environment) is None:
        return NO_SPY
    try:
        scope = int((proc / "sys/kernel/yama/ptrace_scope").read_text())
        powers = (proc / "self/status").read_text().partition("CapEff:")[2].split()[0]
    except OSError:
        return ""  # a kernel without this rule
    return FORBIDDEN if scope and not int(powers, 16) >> _CAP_SYS_PTRACE & 1 else ""


def ask_job(job: str, nodes: Sequence[int], environment: Mapping[str, str], question: StackQuestion) -> str:
    """Return what the nodes of a job answer, `nodes` for each part; a node without an answer is not waited for long."""
    words = [*step_of_job(job, nodes), *gather_words(job, question)]
    status, text, answer = _hear(words, scheduler_environment(environment), sum(nodes), question)
    if "@node" not in text:
        raise not_answered(answer, status, job)
    from muster_check.stacks.read import sort_by_task

    return sort_by_task(text)


def ask_here(job: str, question: StackQuestion, runner: Runner = run) -> str:
    """Return what the ranks of a run on this machine answer."""
    return runner(gather_words(job, question), timeout_s=_PATIENCE_S + question.rounds * question.gap_s).stdout


def gather_words(job: str, question: StackQuestion) -> list[str]:
    """Return the words of what runs on each node."""
    # Which processes are ranks: the scripts of jobs ask it too.
    text = "\n".join((part("processes"), _SCRIPT.read_text(encoding="utf-8")))
    rank = "-" if question.rank is None else str(question.rank)
    if question.directory is None:
        marks = (f"SLURM_JOB_ID={job}", f"MUSTER_JOB={job}")
    else:  # the job's script may have found it by its real path
        marks = (f"MUSTER_RUN_DIR={question.directory}", f"MUSTER_RUN_DIR={question.directory.resolve()}")
    spy_options = (
        question.spy or "-",
        rank,
        str(question.rounds),
        f"{question.gap_s:g}",
        str(int(question.records)),
        str(question.at_once),
    )
    return ["/bin/sh", "-c", text, "muster", *marks, *spy_options, *question.options]


def _hear(
    argv: Sequence[str], environment: Mapping[str, str], nodes: int, question: StackQuestion
) -> tuple[int | None, str, str]:
    """Return the status, the output and the errors of the step; None for the status of one that was not waited for."""
    import tempfile  # `why_unseen_here` is asked by each submission, and needs none

    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:
        process = start(argv, env=environment, stdout=answers, stderr=errors, own_group=True)
        try:
            status = _wait(process, answers.fileno(), nodes, question)
        finally:
            end_group(process, grace_s=1.0)
        return status, _text_of(answers.fileno()), _text_of(errors.fileno())


def _wait(process: Process, answers: int, nodes: int, question: StackQuestion) -> int | None:
    """Wait until the step has ended, or all nodes have answered, or the others have long done so."""
    start_s = time.monotonic()
    pause = (question.rounds - 1) * question.gap_s
    deadline = start_s + _PATIENCE_S + pause
    is_late = False
    while (status := process.poll()) is None and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        done_count = _text_of(answers).count("@done ")
        if done_count >= nodes * question.rounds:
            return 0
        if done_count >= question.rounds and not is_late:
            is_late, taken_s = True, time.monotonic() - start_s
            deadline = min(deadline, start_s + taken_s + max(question.late_s, taken_s - pause))
    return status


def _text_of(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def jobs_here() -> list[str]:
    """Return the runs of this user on this machine: what `muster run --here` calls itself."""
    jobs: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        jobs.update(word[11:].decode() for word in words if word.startswith(b"MUSTER_JOB=here-"))
    return sorted(jobs)


def not_answered(text: str, status: int | None, job: str) -> MusterError:
    """Return what it means that no node of a job answered. `status` is the step's; None: it did not end in time."""
    if status:
        return refused(text, status, job)
    within = f"within {_PATIENCE_S} s" if status is None else "before srun ended"
    hint = f"srun --jobid={job} --overlap hostname shows the same"
    return SchedulerSilent(f"no node of job {job} answered {within}", hint=hint)


def refused(text: str, status: int, job: str) -> MusterError:
    """Return what Slurm's refusal of the step means."""
    lowered = text.lower()
    if "access/permission denied" in lowered or "invalid user" in lowered:
        return RequestError(f"job {job} belongs to another user", hint="only its owner can look into its processes")
    if "invalid job id" in lowered or "already compl" in lowered or "expired" in lowered:
        return SiteError(f"job {job} has no processes: it has ended", hint=f"muster why {job}")
    if "overlap" in lowered or "disabled" in lowered or "busy" in lowered:
        message = f"job {job} takes no further step: its resources are busy, and this Slurm lets no step share them"
        return RequestError(message, hint=f"ssh to a node, where the site allows it, and: muster stacks --here {job}")
    return CommandFailed(["srun"], status, text, hint=f"srun --jobid={job} --overlap hostname shows the same")
