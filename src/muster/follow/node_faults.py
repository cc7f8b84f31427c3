"""What the jobs of this user tell of their nodes: read from their run directories when the next job is submitted.

A job that has not written since it was last read is not read again. No process of Slurm's is asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Optional

from muster.act.bad_nodes import KEPT_S, KnownFaults, NodeFault, Sighting, is_own_file, load, remember, save
from muster.act.record import Run, recent_runs
from muster.follow.attempt_list import AttemptEnd, EndCause, read_attempts, read_ends
from muster.follow.find_output import find_output
from muster.follow.first_failure import first_failure
from muster.follow.last_words import last_words
from muster.model.failure import FailureKind, exit_words

_MOST_RUNS = 200
# A rank that a signal of these ended, and that told of no error: its node may be the cause. SIGTERM comes from outside.
_SUDDEN = frozenset({128 + number for number in (4, 6, 7, 8, 9, 11)})

OfNode = Callable[[Sequence[str]], Optional[str]]
"""Returns the cause that lines of a log tell, where it is of the node; None where it is not, or not known."""


def look_at_nodes(state: Path, cluster: str, of_node: OfNode) -> KnownFaults:
    """Read what happened since the last time, remember it, and return all that is remembered."""
    memory = load(state, cluster)
    sightings: list[Sighting] = []
    looked_at: dict[str, int] = {}
    for run in recent_runs(state, cluster, since=time.time() - KEPT_S, most=_MOST_RUNS):
        newest = max((_changed(file) for folder in _folders(run) for file in _files(folder)), default=0)
        looked_at[run.job] = newest
        if newest and newest != memory.looked_at.get(run.job):
            sightings += sightings_of(run, of_node)
    new_memory = remember(memory, sightings, looked_at)
    if new_memory != memory:
        save(state, cluster, new_memory)
    return new_memory


def sightings_of(run: Run, of_node: OfNode) -> list[Sighting]:
    """Return what one job tells of its nodes."""
    return [sighting for folder in _folders(run) for sighting in _of_folder(run, folder, of_node)]


def _folders(run: Run) -> Iterator[Path]:
    yield run.directory
    yield from sorted(run.directory.glob("task-*"))


def _files(folder: Path) -> tuple[Path, ...]:
    return (folder / "ends", folder / "attempts", folder / "logs" / "batch.log")


def _changed(file: Path) -> int:
    """Return when a file of this user's own was last written."""
    return file.lstat().st_mtime_ns // 1_000_000_000 if is_own_file(file) else 0


def _of_folder(run: Run, folder: Path, of_node: OfNode) -> Iterator[Sighting]:
    """A job that keeps attempts wrote down what happened; of another, the output is looked at."""
    if is_own_file(folder / "attempts"):
        for attempt in read_attempts(folder):
            for node in attempt.lost_before:
                yield _died(run, node, attempt.began or _changed(folder / "attempts"))
    ends = read_ends(folder) if is_own_file(folder / "ends") else []
    for end in ends:
        yield from _of_end(run, end, of_node)
    if not ends and is_own_file(folder / "logs" / "batch.log"):
        yield from _of_output(run, folder, of_node)


def _of_end(run: Run, end: AttemptEnd, of_node: OfNode) -> Iterator[Sighting]:
    if end.host is None:
        return
    if end.kind is EndCause.NODE:
        yield _died(run, end.host, end.ended)
    elif end.kind is EndCause.RANK and end.rank is not None:
        lines = [end.error_line] if end.error_line else []
        yield from _of_rank(run, (end.host, end.rank, end.status), end.ended, of_node(lines), quiet=not lines)


def _of_output(run: Run, folder: Path, of_node: OfNode) -> Iterator[Sighting]:
    task = folder.name.partition("-")[2] if folder != run.directory else ""
    output = find_output(None, run, f"{run.job}_{task}" if task else run.job)
    failure = None if output is None else first_failure(output)
    if failure is None or failure.host is None:
        return
    when = _changed(folder / "logs" / "batch.log")
    if failure.kind is FailureKind.NODE:
        yield _died(run, failure.host, when)
    if not failure.tasks or failure.status is None:
        return
    lines = last_words(output, failure)
    has_error_line = any(re.search(r"Error|Exception|error:", line) for line in lines)
    place = (failure.host, failure.tasks[0], failure.status)
    yield from _of_rank(run, place, when, of_node(lines), quiet=not has_error_line)


def _of_rank(
    run: Run, place: tuple[str, int, int | None], when: int, known: str | None, *, quiet: bool
) -> Iterator[Sighting]:
    """The rank that failed first: of an error of its node, or suddenly and without a word."""
    host, rank, status = place
    if known is not None:
        yield Sighting(host, run.job, when, NodeFault.KNOWN, known)
    elif quiet and status in _SUDDEN:
        subject = f"rank {rank} of {run.name}"
        yield Sighting(host, run.job, when, NodeFault.FIRST, f"{subject}: {exit_words(status)}", subject)


def _died(run: Run, node: str, when: int) -> Sighting:
    return Sighting(node, run.job, when, NodeFault.DIED, "Slurm said that it died")
