"""muster clean: what earlier jobs have left, by age; asks before it removes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import muster
from muster.cli.asked_jobs import cluster, scheduler, state
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_words import plain
from muster.cli.output import print_json, print_table, say
from muster.errors import MachineLacks, NoSlurm, RequestError
from muster.facts import data_home
from muster.job.option import option, parse_walltime

if TYPE_CHECKING:
    from muster.act.clean import CleanRules, Leftover

_DAY_S = 24 * 3600


def main(words: Words) -> int:
    """List the leftovers that may be removed and those that stay; remove the former once the user agrees."""
    from muster.act.clean import find_leftovers, remove_leftover

    question = _question(words)
    leftovers = list(find_leftovers(question))
    removable = [leftover for leftover in leftovers if leftover.kept is None]
    if question.living is None:
        say("nothing tells here which jobs wait or run: what one of them may need stays", quiet=words.json)
    if words.json:
        print_json([_as_json(leftover) for leftover in leftovers])
    else:
        _show(leftovers, removable)
    if not removable or words.dry_run or (words.json and not words.yes):
        return 0
    if not words.yes and not _agreed():
        return 0
    removed: list[Leftover] = []
    for leftover in removable:
        try:
            remove_leftover(leftover, question.state)
        except OSError as error:
            say(f"warning: {leftover.path} could not be removed: {error.strerror or error}")
        else:
            removed.append(leftover)
    say(f"{len(removed)} removed, {_size(sum(leftover.bytes for leftover in removed))}")
    return 0


def _question(words: Words) -> CleanRules:
    from muster.act.clean import CleanRules

    own_cluster, living = _living()
    return CleanRules(
        state=state(),
        libraries=Path(data_home(os.environ, str(Path.home()))) / "muster" / "rank-library",
        package=Path(muster.__file__).resolve().parent,
        cluster=own_cluster,
        living=living,
        older_s=30 * _DAY_S if words.older is None else words.older,
        other_clusters=words.other_clusters,
        with_results=words.with_results,
    )


def _living() -> tuple[str | None, frozenset[str] | None]:
    """Return the cluster here, and its jobs that wait or run, or go on in one that does; None: not known.

    A silent controller ends the verb: nothing is removed.
    """
    from muster.look.cluster import UNNAMED

    try:
        jobs = scheduler().mine().jobs
    except (MachineLacks, NoSlurm):
        return None, None
    if cluster() == UNNAMED:  # whose jobs these are is not known either
        return None, None
    from muster.follow.links import jobs_that_go_on

    living = [job for job in jobs if not job.state.phase.is_over]
    living_ids = frozenset(job_id for job in living for job_id in (job.id, job.shown_id.partition("_")[0]))
    return cluster(), living_ids | jobs_that_go_on(state(), cluster(), living_ids)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise RequestError(
            "there is no terminal to ask for agreement, so nothing was removed",
            hint="--yes agrees, --dry-run only lists",
        )
    print("remove these? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _show(leftovers: Sequence[Leftover], removable: Sequence[Leftover]) -> None:
    if not leftovers:
        say("nothing is left of earlier jobs that is old enough")
        return
    rows = [
        (leftover.kind, plain(str(leftover.path)), _size(leftover.bytes), _age(leftover.age_s), leftover.kept or "")
        for leftover in leftovers
    ]
    print_table("left by earlier jobs", ("what", "where", "size", "age", "it stays, for"), rows)
    say(
        f"{len(removable)} may go, {_size(sum(leftover.bytes for leftover in removable))}; "
        f"{len(leftovers) - len(removable)} stay"
    )


def _as_json(leftover: Leftover) -> dict[str, object]:
    return {
        "kind": leftover.kind,
        "path": str(leftover.path),
        "bytes": leftover.bytes,
        "age_s": int(leftover.age_s),
        "kept": leftover.kept,
        "job": leftover.run.job if leftover.run else None,
        "cluster": (leftover.run.cluster or None) if leftover.run else None,
    }


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.0f} TB"


def _age(seconds: float) -> str:
    return f"{seconds / _DAY_S:.0f} d" if seconds >= _DAY_S else f"{seconds / 3600:.0f} h"


def _older(text: str) -> float:
    try:
        limit = parse_walltime(text).seconds
    except RequestError:
        limit = None
    if limit is None:
        raise RequestError(f"{text!r} is not an age", hint="--older 30d, 12h")
    return float(limit)


COMMAND = CommandLine(
    name="clean",
    start=main,
    summary="""\
List what earlier jobs have left, and remove it once you agree: run directories older than --older, records of run
directories that are gone, rank libraries that no environment uses, texts of earlier versions that scripts read, and
secrets that no job will read.

What a waiting or a running job needs stays.""",
    options=(
        option("--older AGE", "least age of the run directories: 12h (default: 30d)", _older),
        option("--dry-run", "list only, and remove nothing"),
        option("--yes", "remove without asking"),
        option("--with-results", "also remove run directories that hold results of the job"),
        option(
            "--other-clusters",
            "also remove what jobs on other clusters left; Slurm cannot be asked about those jobs from here",
        ),
        JSON,
    ),
)
