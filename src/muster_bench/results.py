"""What the ranks reported, as values. Pure: lines in, a `Series` out; what cannot be read is counted, not fatal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, Union

import msgspec
from msgspec.structs import replace

from muster_bench.factors import bus_factor

MARK = "muster-bench "


class Fault(msgspec.Struct, frozen=True):
    """Wrong elements that one rank found."""

    rank: int
    count: int
    first: int | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start", tag_field="kind"):
    """Who measured, with what."""

    time: float
    size: int
    hosts: tuple[str, ...]
    ranks_per_node: int
    backend: str
    node_of_rank: tuple[int, ...]
    devices: tuple[str, ...]
    torch: tuple[str, ...]
    nccl: tuple[str, ...]
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    differing: tuple[str, ...] = ()
    image: str = ""
    trials: int
    iterations: int
    free_bytes: int

    @property
    def nodes(self) -> int:
        return len(self.hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the hosts; simulated nodes, which share one host, with their numbers."""
        if len(set(self.hosts)) == len(self.hosts):
            return self.hosts
        return tuple(f"{host}/{node}" for node, host in enumerate(self.hosts))

    def host_of(self, rank: int) -> str:
        return self.names[self.node_of_rank[rank]]


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True, tag="collective", tag_field="kind"):
    """One collective at one size: seconds a run, of each trial the slowest rank's."""

    scope: str
    nodes: int
    ranks: int
    collective: str
    dtype: str
    place: str
    bytes: int
    iterations: int
    seconds: tuple[float, ...]
    by_node: tuple[float, ...] = ()
    wrong: tuple[Fault, ...] = ()

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95_s(self) -> float:
        """Return the smallest trial that 95 % of the trials do not exceed."""
        ordered = sorted(self.seconds)
        return ordered[-(-95 * len(ordered) // 100) - 1]

    @property
    def spread(self) -> float:
        """Return the standard deviation over the mean, as a part of one."""
        return statistics.pstdev(self.seconds) / statistics.fmean(self.seconds)

    @property
    def algbw_gb_s(self) -> float:
        """Return 10^9 bytes a second."""
        return self.bytes / self.median_s / 1e9

    @property
    def busbw_gb_s(self) -> float | None:
        """Return the bus bandwidth; None where one rank sends nothing: the factor is 0, and 0 GB/s would be a lie."""
        factor = bus_factor(self.collective, self.ranks)
        return self.algbw_gb_s * float(factor) if factor else None

    @property
    def key(self) -> tuple[str, int, int, str, str, str, int]:
        """Return the fields by which two rows measure the same."""
        return self.scope, self.nodes, self.ranks, self.collective, self.dtype, self.place, self.bytes


class Absent(msgspec.Struct, frozen=True, kw_only=True, tag="absent", tag_field="kind"):
    """What was not measured, and why."""

    scope: str
    nodes: int
    ranks: int
    collective: str
    reason: str
    dtype: str = ""
    place: str = ""
    bytes: int | None = None


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, tag="probe", tag_field="kind"):
    """What each rank measured alone: its values, by rank."""

    name: str
    unit: str
    more_is_better: bool
    by_rank: tuple[tuple[float, ...], ...]
    reason: str = ""

    @property
    def medians(self) -> dict[int, float]:
        return {rank: statistics.median(values) for rank, values in enumerate(self.by_rank) if values}


class Pairs(msgspec.Struct, frozen=True, kw_only=True, tag="pairs", tag_field="kind"):
    """One round: (node, node, seconds, wrong elements, spread of the trials) of each pair."""

    round: int
    bytes: int
    pairs: tuple[tuple[int, int, float, int, float], ...]


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="kind"):
    """The ranks would not begin."""

    reason: str


class SeriesEnd(msgspec.Struct, frozen=True, tag="end", tag_field="kind"):
    """The series came to its end."""


Record = Union[Start, CollectiveRow, Absent, ProbeResult, Pairs, Refused, SeriesEnd]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one job. `complete` only where its last line was read."""

    start: Start | None = None
    rows: tuple[CollectiveRow, ...] = ()
    absent: tuple[Absent, ...] = ()
    probes: tuple[ProbeResult, ...] = ()
    pairs: tuple[Pairs, ...] = ()
    refused: str = ""
    complete: bool = False
    unreadable: int = 0
    """Lines that begin as ours and cannot be read: cut short, or run into each other."""


_DECODER = msgspec.json.Decoder(Record)


def read_line(line: str) -> Record | None:
    """Return the record of a line, None where it is not Muster's; ValueError for a line of Muster's that is damaged."""
    _, mark, text = line.partition(MARK)
    text = text if mark else line.strip()
    if not mark and not text.startswith('{"kind"'):
        return None
    try:
        record: Record = _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    return record


_LISTS: tuple[tuple[type, str], ...] = (
    (CollectiveRow, "rows"),
    (Absent, "absent"),
    (ProbeResult, "probes"),
    (Pairs, "pairs"),
)


def add(series: Series, record: Record) -> Series:
    """Return the series with one more record; what follows a new start is a new series."""
    if isinstance(record, Start):
        return Series(start=record, unreadable=series.unreadable)
    if isinstance(record, Refused):
        return replace(series, refused=record.reason)
    if isinstance(record, SeriesEnd):
        return replace(series, complete=True)
    name = next(name for kind, name in _LISTS if isinstance(record, kind))
    additions: dict[str, Any] = {name: (*getattr(series, name), record)}
    return replace(series, **additions)


def read_series(lines: Iterable[str]) -> Series:
    """Return the last series in the lines of a log or results file."""
    series = Series()
    for line in lines:
        try:
            record = read_line(line)
        except ValueError:
            series = replace(series, unreadable=series.unreadable + 1)
            continue
        if record is not None:
            series = add(series, record)
    return series
