"""The jobs of one job that goes on in the next (`--until-done`): RUN/links, one line each: number, job, when queued."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from muster.act.record import Run, known_runs, write_whole, written_lines
from muster.slurm.jobs import SlurmJob
from muster.units import whole_number


class ChainLink(msgspec.Struct, frozen=True):
    """One job of a chain."""

    number: int
    job: str
    """As squeue shows it: 57, or 57_3 for a task of an array."""


def links_in(folder: Path) -> tuple[ChainLink, ...]:
    """Return the links that a run directory, or that of a task, names: the last job of each number."""
    links = {}
    for line in written_lines(folder / "links"):
        number, job = (*line.split("\t"), "", "")[:2]
        if (link_number := whole_number(number)) is not None and job:
            links[link_number] = ChainLink(link_number, job)
    return tuple(links[number] for number in sorted(links))


def link_of(folder: Path, job: SlurmJob) -> tuple[tuple[ChainLink, ChainLink], ...]:
    """Return the first link and that of a job, if the folder of its output says that the job is a later one."""
    links = links_in(folder)
    # A link of an array has one task; once it is withdrawn Slurm shows it without.
    ids = {job.id, job.shown_id.partition("_")[0]}
    return tuple((links[0], link) for link in links[1:] if link.job.partition("_")[0] in ids)


def chains_of(run: Run, task: str = "") -> tuple[tuple[ChainLink, ...], ...]:
    """Return the chain of a job; of an array, those of each of its tasks, or of the one that is meant."""
    if not run.links:
        return ()
    folders = [run.directory / f"task-{task}"] if task else [run.directory, *sorted(run.directory.glob("task-*"))]
    return tuple(links for folder in folders if (links := links_in(folder)))


def run_with_link(state: Path, cluster: str, job: str) -> Run | None:
    """Return the run of which a job is a link: only the first is in the registry."""
    return next(
        (run for run in _chained(state, cluster) if any(_is_link(chain, job) for chain in chains_of(run))), None
    )


def jobs_that_go_on(state: Path, cluster: str, living: Collection[str]) -> frozenset[str]:
    """Return the first job of each chain of which a link is among the jobs that wait or run."""
    return frozenset(
        run.job
        for run in _chained(state, cluster)
        if any(_is_link(chain, job) for chain in chains_of(run) for job in living)
    )


def _chained(state: Path, cluster: str) -> Iterator[Run]:
    return (run for run in known_runs(state) if run.links and run.cluster == cluster)


def _is_link(chain: Iterable[ChainLink], job: str) -> bool:
    return any(job in {link.job, link.job.partition("_")[0]} for link in chain)


def current_of(
    chain: Sequence[ChainLink], jobs: Sequence[SlurmJob], *, goes_on: bool = False
) -> tuple[int, SlurmJob] | None:
    """Return the number and the job of the link that stands for all of them.

    It is the one that runs, else the one that waits for nodes and for no other link, else the last that had nodes; or
    the link behind that, which was cancelled, where the last leaves the rest to it (`goes_on`).
    """
    known_links = [(link.number, job) for link in chain for job in jobs if link.job in {job.id, _plain(job.shown_id)}]
    living = [row for row in known_links if not row[1].state.phase.is_over]
    if living:
        return living[0]
    last = max((place for place, row in enumerate(known_links) if row[1].node_list), default=len(known_links) - 1)
    return known_links[last : last + 1 + goes_on][-1] if known_links else None


def _plain(shown_id: str) -> str:
    """Return the id of a task of an array that waits, 57_[3], as that of one that runs, 57_3."""
    return shown_id.replace("[", "").replace("]", "").partition("%")[0]


def close_chain(run: Run, task: str, reason: str) -> None:
    """Write down that nothing is left to do: a link that is queued at this very moment ends by itself."""
    for folder in (run.directory / f"task-{task}",) if task else (run.directory, *run.directory.glob("task-*")):
        if folder.is_dir():
            write_whole(folder / "over", f"{reason}\n")
