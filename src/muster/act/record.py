"""The run directory, written whole or not at all, and the small registry by which a job finds it again.

    RUN/plan.json      the plan
    RUN/job.sh         the script that was queued
    RUN/record.json    job id, times, command, git commit, names of all variables and the values of a few
    RUN/changes.diff   what the work tree had that the commit has not
    RUN/snapshot/      with --snapshot: the project as it was; RUN/here leads to the working directory in it
    RUN/passed         the values of variables that are passed on by name, until the job has read them; 0600
    RUN/output         of a job that sbatch alone queued: the file that takes all output
    RUN/logs/batch.log the batch script's own output and srun's messages
    RUN/logs/NODE.log  the ranks of that node, each line "RANK: …"    (NODE.RANK.log with --per-rank-files)
    RUN/roles/NAME/    of a job with several programs: plan, logs and the like of each role; roles.json: where each is;
                       events: what happened to them
    RUN/task-N/logs/   of an array: each task's own
    RUN/task-N/row.json of --sweep: the values of the task's row
    RUN/task-N/status  of a row that shared its job with others: how it ended
    RUN/logs/ranks.log all ranks, under mpirun: "[1,RANK]<stdout>:…" (logs shows "RANK: …"), "[RANK] …" (MPICH)

The registry holds one file per job, `$XDG_STATE_HOME/muster/jobs/CLUSTER/JOBID.json`: clusters number their jobs
alike. What Slurm says of a job is held against it (`is_of`): a new cluster, such as a lab, begins at 1 again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from muster.errors import MusterError, RequestError
from muster.look.cluster import UNNAMED
from muster.look.programs import on_path
from muster.plan.secret import is_secret
from muster.runner import Runner, run

if TYPE_CHECKING:
    from muster.slurm.jobs import SlurmJob

# Values of these may be kept: they say how the job runs. What looks like a secret (SLURM_JWT) is not kept.
_KEPT_PREFIXES = (
    "NCCL_",
    "RCCL_",
    "FI_",
    "OMP_",
    "OMPI_",
    "UCX_",
    "SLURM_",
    "SBATCH_",
    "CUDA_",
    "ROCR_",
    "HIP_",
    "ZE_",
    "CCL_",
)
_KEPT_NAMES = frozenset({"HOSTNAME", "VIRTUAL_ENV", "CONDA_PREFIX", "LOADEDMODULES", "PATH", "LD_LIBRARY_PATH", "USER"})


class Run(msgspec.Struct, frozen=True):
    """A job that Muster started: its id, its run directory, and what tells it from another job of the same number."""

    job: str
    directory: Path
    name: str
    cluster: str = ""
    submitted: int | None = None
    """When it was queued, by this host's clock; seconds since 1970."""

    digest: str = ""
    """What the job's comment says of the launch."""

    moved: bool = False
    """Its output lies where -o says, and not in the run directory."""

    requeues: bool = False
    """It may run more than once; Slurm then tells the last time that it was queued."""

    links: int = 0
    """How many jobs may follow each other with --until-done; RUN/links names those that were queued."""

    rows_per_job: int = 0
    """How many rows of --sweep share one job; 0: each is a job of its own, or there is no table."""


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file: it appears whole, or not at all. A umask that is stricter than `mode` holds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        # A word of the user's need not be UTF-8: its bytes stay what they are.
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def written_lines(file: Path) -> list[str]:
    """Return the lines of a file that a job writes; none where it is not there, or cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def written_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty where it is not there, cannot be read, or holds none."""
    import json  # most submissions read none

    try:
        document = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def make_run_directory(
    parent: Path,
    name: str,
    files: Mapping[str, str],
    now: datetime | None = None,
    *,
    fill: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Return a new directory under `parent` with these files, what `fill` lays into it, and an empty logs/.

    Nothing is left of one that fails.
    """
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%d-%H%M%S")
    safe = "".join(character if character.isalnum() or character in "._-" else "-" for character in name)[:60]
    safe = safe.lstrip(".-")  # neither hidden nor an option of rm
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = parent / f".new-{os.urandom(8).hex()}"
        building.mkdir(mode=0o700)
    except OSError as error:
        raise RequestError(
            f"the run directory cannot be made in {parent}: {error.strerror}",
            hint="run from a directory that you can write and the compute nodes can see",
        ) from None
    try:
        (building / "logs").mkdir(mode=0o700)
        for filename, text in files.items():
            write_whole(building / filename, text, mode=0o700 if filename.endswith(".sh") else 0o600)
        fill(building)
        return _take_name(building, parent, f"{safe or 'run'}-{stamp}")
    except BaseException as error:
        import shutil

        shutil.rmtree(building, ignore_errors=True)
        if isinstance(error, OSError):
            message = f"the run directory cannot be written in {parent}: {error.strerror}"
            raise RequestError(
                message, hint="look whether the disk is full or a quota is reached: df -h, quota"
            ) from None
        raise


def _take_name(building: Path, parent: Path, name: str) -> Path:
    """Give the finished directory its name; two that are made in the same second get different ones."""
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        target = parent / f"{name}{suffix}"
        with suppress(FileExistsError):
            target.mkdir(mode=0o700)
            building.replace(target)
            return target
    raise MusterError(f"{parent} holds a thousand runs that began in this second", hint="remove old runs: muster clean")


def record_of(
    typed: tuple[str, ...],
    environment: Mapping[str, str],
    working_directory: str,
    *,
    image: str | None = None,
    runner: Runner = run,
) -> tuple[dict[str, Any], str]:
    """Return what is kept of how a job was made, and the difference to the commit."""
    commit, changes = _git(working_directory, environment, runner)
    record = {
        name: value
        for name, value in sorted(environment.items())
        if (name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)) and not is_secret(name, value)
    }
    return {
        "command": list(typed),
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "working_directory": working_directory,
        "git_commit": commit,
        **({"image": _image(image)} if image else {}),
        "environment": record,
        "environment_names": sorted(environment),
    }, changes


# What `muster build image` wrote beside it that says which bytes it is.
_OF_AN_IMAGE = ("from", "base", "bases", "image", "pulled", "built", "engine", "inputs")


def _image(path: str) -> dict[str, Any]:
    """Return which image it is: its path, and what stands in the record beside it."""
    beside = written_object(Path(f"{path.rstrip('/')}.json"))
    return {"path": path, **{name: beside[name] for name in _OF_AN_IMAGE if beside.get(name)}}


def _git(directory: str, environment: Mapping[str, str], runner: Runner) -> tuple[str | None, str]:
    if on_path("git", environment) is None:
        return None, ""
    commit = runner(["git", "-C", directory, "rev-parse", "HEAD"], timeout_s=10)
    if not commit.ok:
        return None, ""
    return commit.stdout.strip(), runner(["git", "-C", directory, "diff", "HEAD"], timeout_s=20).stdout


def state_directory(environment: Mapping[str, str], home: str) -> Path:
    """Return where Muster keeps what it has to remember of this user."""
    return Path(environment.get("XDG_STATE_HOME") or Path(home) / ".local" / "state") / "muster"


def register(state: Path, run: Run) -> None:
    """Remember where a job's run directory lies."""
    place = _entry(state, run.cluster, run.job)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(place, msgspec.json.encode(run, enc_hook=str).decode() + "\n")


def forget(state: Path, run: Run) -> None:
    """Remove a job's entry."""
    _entry(state, run.cluster, run.job).unlink(missing_ok=True)


def safe_name(cluster: str) -> str:
    """Return a cluster's name as a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", cluster).lstrip(".")


def _entry(state: Path, cluster: str, job: str) -> Path:
    return state / "jobs" / safe_name(cluster) / f"{job}.json"


def find_run(state: Path, job: str, cluster: str) -> Run | None:
    """Return the run of a job id on a cluster.

    Where nothing tells which cluster this is, the only run of that number is meant.
    """
    if cluster == UNNAMED:
        alike = [run for path in (state / "jobs").glob(f"*/{job}.json") if (run := _read_entry(path))]
        return alike[0] if len(alike) == 1 else None
    return _read_entry(_entry(state, cluster, job))


def _read_entry(path: Path) -> Run | None:
    """Return an entry, if it can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run, dec_hook=lambda kind, value: kind(value))
    except (OSError, ValueError, TypeError):
        return None


def known_runs(state: Path) -> Iterator[Run]:
    """Yield every run that is remembered."""
    for path in sorted((state / "jobs").glob("**/*.json")):
        run = _read_entry(path)
        if run is not None:
            yield run


def recent_runs(state: Path, cluster: str, *, since: float, most: int) -> Iterator[Run]:
    """Yield the youngest runs of a cluster that were registered after `since`, at most so many."""
    times = []
    for path in (state / "jobs" / safe_name(cluster)).glob("*.json"):
        with suppress(OSError):
            times.append((path.stat().st_mtime, path))
    for registered, path in sorted(times, reverse=True)[:most]:
        run = _read_entry(path) if registered > since else None
        if run is not None:
            yield run


# How far the clocks of a login host and of the controller may differ, and how long a submission may take.
_CLOCKS_S = 600


def is_of(run: Run, job: SlurmJob) -> bool:
    """Return whether a job, as Slurm tells it, is the one of this run, and not another of the same number."""
    folder = f"{run.directory}/"
    if job.stdout is not None and not run.moved:
        return job.stdout.startswith(folder)
    if job.comment is not None and job.comment != f"muster:{run.digest}":
        return False
    if job.submitted is not None and run.submitted is not None:
        late = job.submitted - run.submitted
        return late >= -_CLOCKS_S and (run.requeues or late <= _CLOCKS_S)
    return job.is_ours or job.name == run.name
