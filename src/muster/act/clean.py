"""What earlier jobs have left: run directories, entries of the registry, rank libraries; what of it may go."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from muster.act.record import Run, forget, known_runs
from muster.render.folder import folder_name

_DAY_S = 24 * 3600
# A file of hidden values is its job's for so long, whatever Slurm says of it.
_JUST_MADE_S = 600
_OURS = frozenset(
    {
        *("plan.json", "job.sh", "record.json", "changes.diff", "job_id", "passed", "image.toml", "row.json", "hang"),
        *("output", "array", "attempts", "cancel", "ends", "links", "looks", "over", "progress", "saves", "status"),
        *("well", ".status", "roles.json", "events"),
    }
)
_OURS_BEGIN = ("link-", ".muster-image-", "events.")


class CleanRules(msgspec.Struct, frozen=True):
    """What is known, and what may go."""

    state: Path
    libraries: Path
    package: Path
    """Muster's own folder: the library that leads to it is in use."""

    cluster: str | None
    """The cluster that could be asked; None: there is none here."""

    living: Collection[str] | None
    """Ids of the jobs there that wait or run, and of each job that goes on in one of them; None: nobody told."""

    older_s: float
    other_clusters: bool = False
    with_results: bool = False
    now: float = msgspec.field(default_factory=time.time)


class Leftover(msgspec.Struct, frozen=True):
    """One thing that was left."""

    kind: str
    path: Path
    bytes: int
    age_s: float
    kept: str | None = None
    """Why it stays; None: it may go."""

    run: Run | None = None


def find_leftovers(question: CleanRules) -> Iterator[Leftover]:
    """Yield everything that is old enough to be named, and the secrets that a job has not removed."""
    for run in known_runs(question.state):
        yield from _of_run(run, question)
    for path in sorted((question.state / "pending").glob("*.json")):
        if question.now - path.stat().st_mtime > _DAY_S:
            yield Leftover("submission", path, path.stat().st_size, question.now - path.stat().st_mtime)
    is_unknown = question.living is None and not question.other_clusters
    stays = "no Slurm tells from here whether a job uses it (--other-clusters)" if is_unknown else None
    for folder in sorted(question.libraries.glob("*")):
        link = folder / "muster"
        if link.is_symlink() and not link.exists():
            yield Leftover("rank library", folder, 0, question.now - folder.lstat().st_mtime)
        elif link.is_symlink() and link.resolve() != question.package and _is_unused(folder, question):
            yield Leftover("rank library", folder, 0, question.now - folder.stat().st_mtime, stays)
    for folder in sorted((question.libraries.parent / "texts").glob("*")):
        is_version = folder.is_dir() and not folder.is_symlink() and folder.name != folder_name()
        if is_version and _is_unused(folder, question):
            bytes_ = sum(path.lstat().st_size for path in folder.iterdir())
            yield Leftover("texts", folder, bytes_, question.now - folder.stat().st_mtime, stays or _others(question))


def _is_unused(folder: Path, question: CleanRules) -> bool:
    """Return whether no launch named this folder for long, and no job here waits or runs that may read it."""
    return question.now - folder.stat().st_mtime > question.older_s and not question.living


def _others(question: CleanRules) -> str | None:
    """Return why texts stay where a job of another cluster, which nobody asks, may wait for them."""
    is_shared = any(run.cluster != question.cluster for run in known_runs(question.state))
    return (
        "jobs on other clusters may read it (--other-clusters)" if is_shared and not question.other_clusters else None
    )


def _of_run(run: Run, question: CleanRules) -> Iterator[Leftover]:
    stays = _why_it_stays(run, question)
    if not run.directory.is_dir():
        # Its file system may be away; an entry of a living job is needed in any case.
        if stays is None and not run.directory.parent.parent.is_dir():
            stays = f"{run.directory.parent} is not to be seen from here"
        yield Leftover("entry", run.directory, 0, question.now - (run.submitted or question.now), stays, run)
        return
    for path in sorted(run.directory.glob("**/passed")):
        age_s = question.now - path.stat().st_mtime
        if stays is None and age_s > _JUST_MADE_S:
            yield Leftover("secret", path, path.stat().st_size, age_s)
    files = [path for path in run.directory.rglob("*") if not path.is_symlink() and path.is_file()]
    age_s = question.now - max(path.stat().st_mtime for path in [run.directory, *files])
    if age_s <= question.older_s:
        return
    results = [path for path in files if not _is_ours(path.relative_to(run.directory))]
    if stays is None and results and not question.with_results:
        stays = f"it holds what the job wrote: {results[0].relative_to(run.directory)} (--with-results)"
    yield Leftover("run", run.directory, sum(path.stat().st_size for path in files), age_s, stays, run)


def _why_it_stays(run: Run, question: CleanRules) -> str | None:
    if run.job in (question.living or ()):
        return f"job {run.job} waits or runs"
    if run.cluster == question.cluster or question.other_clusters:
        return None
    return f"its job was one of the cluster {run.cluster}, which is not asked from here (--other-clusters)"


def _is_ours(path: Path) -> bool:
    """Return whether Muster, and not the job, wrote a file of a run directory. A snapshot is where the job works."""
    parts = path.parts[1:] if path.parts[0].startswith("task-") else path.parts
    if parts[0] == "roles" and len(parts) > 1:  # a role has a folder of its own, like that of a run
        return _is_ours(Path(*parts[2:] or parts[1:]))
    if len(parts) == 1:
        return parts[0] in _OURS or parts[0].startswith(_OURS_BEGIN)
    is_end = parts[0] == "ranks" and len(parts) == 3 and re.fullmatch(r"[0-9]+\.[0-9]+", parts[-1]) is not None
    return is_end or (parts[0] == "logs" and parts[-1].endswith(".log"))


def remove_leftover(leftover: Leftover, state: Path) -> None:
    """Remove it; a run with its entry, and last, so that what could not be removed is still known."""
    if leftover.kind in {"run", "rank library", "texts"}:
        shutil.rmtree(leftover.path)
    elif leftover.kind != "entry":
        leftover.path.unlink(missing_ok=True)
    if leftover.run is not None:
        forget(state, leftover.run)


def remove_passed(run: Run) -> None:
    """Remove the hidden values that were handed to a job which now never reads them."""
    for path in run.directory.glob("**/passed"):
        with suppress(OSError):
            path.unlink()
