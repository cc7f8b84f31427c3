"""What a start costs by number of nodes: the ranks' lines, their phases, earlier ones of the site. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from muster_bench.ranks.start import WORD

PHASES = {
    "start": "from the command to the last rank's task: Muster, Slurm, the launch",
    "prologue": "from a rank's task to its Python's first line",
    "import": "import torch",
    "joining": "init_process_group",
    "first collective": "an all_reduce of one number",
}


class RankLine(msgspec.Struct, frozen=True):
    """When one rank was where, in seconds of its host's clock. None: it did not come so far."""

    rank: int
    size: int
    host: str
    began: float
    main: float
    imported: float | None = None
    joined: float | None = None
    summed: float | None = None
    sum: int | None = None
    torch: str = ""
    device: str = ""


class StartRow(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of each phase on so many nodes: of the rank in the middle, and of the slowest."""

    time: float
    site: str
    nodes: int
    ranks: int
    device: str
    torch: str
    median_s: dict[str, float]
    slowest_s: dict[str, float]


def read_rank(line: str) -> RankLine | None:
    """Return what a rank says in a line, or None for any other line."""
    if not line.startswith(WORD):
        return None
    return msgspec.json.decode(line[len(WORD) :], type=RankLine)


def row_of(ranks: Sequence[RankLine], nodes: int, begun: float, site: str) -> StartRow:
    """Return the phases of one start, which began at `begun`."""
    seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for rank in ranks:
        moments = [begun, rank.began, rank.main, rank.imported, rank.joined, rank.summed]
        for phase, before, after in zip(PHASES, moments, moments[1:]):
            if before is not None and after is not None:
                # The clocks of two hosts differ by some milliseconds.
                seconds[phase].append(max(0.0, after - before))
    known = {phase: values for phase, values in seconds.items() if values}
    return StartRow(
        time=begun,
        site=site,
        nodes=nodes,
        ranks=len(ranks),
        device=ranks[0].device,
        torch=ranks[0].torch,
        median_s={phase: round(statistics.median(values), 4) for phase, values in known.items()},
        slowest_s={phase: round(max(values), 4) for phase, values in known.items()},
    )


def node_counts(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4 … and the most itself."""
    counts = [1]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return tuple(dict.fromkeys([*counts, most]))


def read_rows(lines: Iterable[str]) -> tuple[tuple[StartRow, ...], int]:
    """Return the rows of earlier runs, and how many lines could not be read."""
    decoder, rows, unreadable = msgspec.json.Decoder(StartRow), [], 0
    for line in filter(str.strip, lines):
        try:
            rows.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeError):
            unreadable += 1
    return tuple(rows), unreadable


def usual_s(row: StartRow, phase: str, earlier: Iterable[StartRow]) -> float | None:
    """Return the median of the slowest ranks in earlier runs of this site, device, number of nodes and of ranks."""
    same = [
        each.slowest_s[phase]
        for each in earlier
        if (each.site, each.device, each.nodes, each.ranks) == (row.site, row.device, row.nodes, row.ranks)
        and phase in each.slowest_s
    ]
    return statistics.median(same) if same else None
