"""A copy of the project as it is now, in the run directory: a job that waits for days runs what was submitted.

RUN/snapshot/   what git tracks, and what it neither tracks nor ignores, with its modes and links
RUN/here        a link to the copy of the working directory
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from muster.errors import RequestError
from muster.model.plan import SNAPSHOT_HERE
from muster.runner import Runner, run

_RUNS = "muster-runs"  # earlier runs lie in the project, but do not belong to it


def copy_project(working_directory: str, run_directory: Path, *, runner: Runner = run) -> None:
    """Copy the git work tree that the working directory belongs to."""
    source = Path(working_directory).resolve()
    top = _top_of(source, runner)
    copy = run_directory / "snapshot"
    for path in _files(top, runner):
        target = copy / path.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
    (copy / source.relative_to(top)).mkdir(parents=True, exist_ok=True)
    (run_directory / SNAPSHOT_HERE).symlink_to(Path("snapshot") / source.relative_to(top))


def _top_of(folder: Path, runner: Runner) -> Path:
    hint = "omit --snapshot, or type: git init"
    if shutil.which("git") is None:
        raise RequestError(
            "--snapshot copies the files that git knows, but git is not on PATH", hint="load git, or omit it"
        )
    result = runner(["git", "-C", str(folder), "rev-parse", "--show-toplevel"], timeout_s=20)
    if not result.ok:
        raise RequestError(
            f"--snapshot copies the files that git knows, but {folder} is not in a work tree of git", hint=hint
        )
    return Path(result.stdout.removesuffix("\n"))


def _files(top: Path, runner: Runner) -> Iterator[Path]:
    """Yield every file of the work tree that is there now; those of submodules too."""
    words = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = runner([*words, f"--exclude={_RUNS}/"], timeout_s=120)
    if not listing.ok:
        raise RequestError(f"git cannot list the files of {top}: {listing.stderr.strip()}", hint="git status says more")
    for name in sorted(set(listing.stdout.split("\0")) - {""}):
        path = top / name
        if path.is_dir() and not path.is_symlink():
            yield from _files(path, runner) if (path / ".git").exists() else ()
        elif os.path.lexists(path):
            yield path
        elif "\ufffd" in name:
            raise RequestError(
                f"--snapshot cannot copy {name!r}: its name is not UTF-8", hint="rename it, or ignore it"
            )
