"""Ask every node of a job, or this machine, where the ranks stand: one step more, at the side of the job's own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.errors import CommandFailed, MusterError, RequestError
from muster.look.place import scheduler_environment
from muster.runner import Runner, run
from muster.slurm.allocation import step_of_job
from muster.stacks.read import sort_by_task

__all__ = ["ask_here", "ask_job", "find_spy", "jobs_here"]

_PATIENCE_S = 60
_SCRIPT = Path(__file__).with_name("gather.sh")


def find_spy(environment: Mapping[str, str]) -> str | None:
    """Return py-spy's path: the one beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    if beside.is_file() and os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("py-spy", path=environment.get("PATH"))


def ask_job(
    job: str,
    nodes: int,
    environment: Mapping[str, str],
    *,
    spy: str | None,
    rank: int | None = None,
    options: Sequence[str] = (),
    runner: Runner = run,
) -> str:
    """Return what the nodes of a running Slurm job answer."""
    words = [*step_of_job(job, nodes), *_words(job, spy, rank, options)]
    done = runner(words, env=scheduler_environment(environment), timeout_s=_PATIENCE_S)
    if not done.ok and "@rank" not in done.stdout:
        raise _refused(done.stderr, done.status, job)
    return sort_by_task(done.stdout)


def ask_here(
    job: str, *, spy: str | None, rank: int | None = None, options: Sequence[str] = (), runner: Runner = run
) -> str:
    """Return what the ranks of a run on this machine answer."""
    return runner(_words(job, spy, rank, options), timeout_s=_PATIENCE_S).stdout


def _words(job: str, spy: str | None, rank: int | None, options: Sequence[str]) -> list[str]:
    text = _SCRIPT.read_text(encoding="utf-8")
    return ["/bin/sh", "-c", text, "muster", job, spy or "-", "-" if rank is None else str(rank), *options]


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


def _refused(text: str, status: int, job: str) -> MusterError:
    """Return what Slurm's refusal of the step means."""
    lowered = text.lower()
    if "access/permission denied" in lowered or "invalid user" in lowered:
        return RequestError(f"job {job} belongs to another user", hint="only its owner can look into its processes")
    if "invalid job id" in lowered or "already completed" in lowered or "expired" in lowered:
        return RequestError(f"job {job} has no processes: it has ended", hint=f"muster why {job}")
    if "overlap" in lowered or "disabled" in lowered or "busy" in lowered:
        message = f"job {job} takes no further step: its resources are busy, and this Slurm lets no step share them"
        return RequestError(message, hint=f"ssh to a node, where the site allows it, and: muster stacks --here {job}")
    return CommandFailed(["srun"], status, text, hint=f"srun --jobid={job} --overlap hostname shows the same")
