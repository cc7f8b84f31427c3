"""The results of earlier runs, one JSON object a line: what a later run can be compared with.

A line is written whole with one call, so that two jobs may share a file; a line cut short is reported and ignored.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from muster_bench.results import CollectiveRow, Series


class EarlierRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of an earlier run, and on what it was measured."""

    time: float
    site: str
    hosts: tuple[str, ...]
    device: str
    torch: str
    nccl: str
    row: CollectiveRow


class History(msgspec.Struct, frozen=True):
    """What the file holds, and how many of its lines could not be read."""

    entries: tuple[EarlierRow, ...] = ()
    unreadable: int = 0

    def earlier(self, row: CollectiveRow, site: str, device: str) -> tuple[float, ...]:
        """Return the GB/s that the same measurement gave on the same kind of device of this site."""
        rates = []
        for entry in self.entries:
            if entry.site == site and entry.device == device and entry.row.key == row.key:
                rate = entry.row.busbw_gb_s
                if rate is not None:
                    rates.append(rate)
        return tuple(rates)

    def usual(self, row: CollectiveRow, site: str, device: str) -> float | None:
        """Return the median of the earlier ones."""
        rates = self.earlier(row, site, device)
        return statistics.median(rates) if rates else None


def history_lines(series: Series, site: str) -> Sequence[str]:
    """Return the lines that this series adds; rows with wrong elements teach nothing about speed."""
    start = series.start
    if start is None:
        return ()
    entries = [
        EarlierRow(
            time=start.time,
            site=site,
            hosts=start.hosts[: row.nodes],
            device=start.devices[0],
            torch=start.torch[0],
            nccl=start.nccl[0],
            row=row,
        )
        for row in series.rows
        if not row.wrong
    ]
    return [msgspec.json.encode(entry).decode() for entry in entries]


def read_history(lines: Iterable[str]) -> History:
    """Return every line that can be read."""
    decoder = msgspec.json.Decoder(EarlierRow)
    entries, unreadable = [], 0
    for line in lines:
        if not line.strip():
            continue
        try:
            entries.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeError):
            unreadable += 1
    return History(tuple(entries), unreadable)
