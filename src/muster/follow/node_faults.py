"""What the jobs of this user tell of their nodes: read from their run directories when the next job is submitted.

A job that has not written since it was last read is not read again. Slurm is asked, at most once, for the state of the
nodes that died: it may have them back.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Optional

from muster.act.bad_nodes import (
    KEPT_S,
    KnownFaults,
    NodeFault,
    Sighting,
    WellRun,
    is_own_file,
    load,
    nodes_to_ask_about,
    remember,
    save,
    with_states,
)
from muster.act.record import Run, recent_runs, written_object
from muster.errors import HostlistError
from muster.follow.attempt_list import AttemptEnd, EndCause, read_attempts, read_ends, read_good_ends
from muster.model.failure import FailureKind, exit_words
from muster.rank.hostlist import expand
from muster.slurm.cluster import NodeState

_MOST_RUNS = 200
# A rank that a signal of these ended, and that told of no error: its node may be the cause. SIGTERM comes from outside.
_SUDDEN = frozenset({128 + number for number in (4, 6, 7, 8, 9, 11)})

OfNode = Callable[[Sequence[str]], Optional[str]]
"""Returns the cause that lines of a log tell, where it is of the node; None where it is not, or not known."""


NodeStates = Callable[[Sequence[str]], Mapping[str, NodeState]]
"""Asks Slurm for the state of these nodes; those of which it says nothing are missing."""


def look_at_nodes(state: Path, cluster: str, of_node: OfNode, states: NodeStates) -> KnownFaults:
    """Read what happened since the last time, remember it, and return all that is remembered."""
    memory = load(state, cluster)
    sightings: list[Sighting] = []
    well: list[WellRun] = []
    looked_at: dict[str, int] = {}
    for run in recent_runs(state, cluster, since=time.time() - KEPT_S, most=_MOST_RUNS):
        newest = max((_changed(file) for folder in _folders(run) for file in _files(folder)), default=0)
        looked_at[run.job] = newest
        if newest and newest != memory.looked_at.get(run.job):
            sightings += sightings_of(run, of_node)
            well += _well_of(run)
    new_memory = remember(memory, sightings, looked_at, well=well)
    lost_nodes = nodes_to_ask_about(new_memory)
    if lost_nodes:
        new_memory = with_states(new_memory, states(lost_nodes))
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
    return (folder / "ends", folder / "attempts", folder / "well", *(folder / "logs" / name for name in _LOGS))


# Of a job of `muster run` the output is kept where it failed, in the second.
_LOGS = ("batch.log", "ranks.log")


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
    if not ends and any(is_own_file(folder / "logs" / name) for name in _LOGS):
        yield from _of_output(run, folder, of_node)


def _of_end(run: Run, end: AttemptEnd, of_node: OfNode) -> Iterator[Sighting]:
    if end.host is None:
        return
    if end.kind is EndCause.NODE:
        yield _died(run, end.host, end.ended)
    elif end.kind is EndCause.UNSAID:
        yield _unsaid(run, end.host, end.ended)
    elif end.kind is EndCause.RANK and end.rank is not None:
        lines = [end.error_line] if end.error_line else []
        yield from _of_rank(run, (end.host, end.rank, end.status), end.ended, of_node(lines), quiet=not lines)


def _well_of(run: Run) -> Iterator[WellRun]:
    """Yield the starts that ended well, and the nodes of each."""
    for folder in _folders(run):
        for end in read_good_ends(folder) if is_own_file(folder / "well") else ():
            with suppress(HostlistError):
                yield WellRun(script_of(run), run.job, tuple(expand(end.nodes)), end.when)


_INTERPRETERS = r"(?:.*/)?(?:python[0-9.]*|bash|sh|dash|torchrun|accelerate|env)"


def script_of(run: Run) -> str:
    """Return which script a job ran: its path, or the name of its module; empty where that is not known."""
    plan = written_object(run.directory / "plan.json")
    try:
        program, *words = map(str, plan["command"])
        if re.fullmatch(_INTERPRETERS, program):
            program = next((word for word in words if not word.startswith("-")), program)
        return os.path.normpath(Path(str(plan["working_directory"]), program))
    except (ValueError, KeyError, TypeError):
        return ""


def _of_output(run: Run, folder: Path, of_node: OfNode) -> Iterator[Sighting]:
    """Look at the output of a job that has ended since the last look: most submissions find none to look at."""
    from muster.follow.find_output import find_output
    from muster.follow.first_failure import first_failure
    from muster.follow.last_words import last_words

    task = folder.name.partition("-")[2] if folder != run.directory else ""
    output = find_output(None, run, f"{run.job}_{task}" if task else run.job)
    failure = None if output is None else first_failure(output)
    if failure is None or failure.host is None:
        return
    when = max(_changed(folder / "logs" / name) for name in _LOGS)
    if failure.kind is FailureKind.NODE:
        yield _died(run, failure.host, when)
    elif failure.kind is FailureKind.UNSAID:
        yield _unsaid(run, failure.host, when)
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
        words = f"rank {rank} of {run.name}: {exit_words(status)}"
        yield Sighting(host, run.job, when, NodeFault.FIRST, words, script_of(run))


def _died(run: Run, node: str, when: int) -> Sighting:
    return Sighting(node, run.job, when, NodeFault.DIED, "Slurm said that it died")


def _unsaid(run: Run, node: str, when: int) -> Sighting:
    return Sighting(node, run.job, when, NodeFault.UNSAID, "how its ranks ended is not known")
