"""Results in words: the lines of the table, and the JSON document. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from muster.older import zip_equal
from muster_bench.judge import Judgement, Remark
from muster_bench.order import format_bytes
from muster_bench.pairs import pair_rates
from muster_bench.peaks import Share, shares_of_peak
from muster_bench.results import CollectiveRow, Series

COLUMNS = (
    "where",
    "collective",
    "type",
    "place",
    "size",
    "time",
    "p95",
    "±",
    "GB/s",
    "bus GB/s",
    "bus Gbit/s",
    "wrong",
)
NODE_COLUMNS = ("nodes", "ranks", "collective", "size", "bus GB/s", "bus Gbit/s", "algorithm GB/s", "algorithm Gbit/s")

# What a narrow terminal does without, the first of them first.
LEAST_NEEDED = ("p95", "±", "bus Gbit/s", "type", "place", "GB/s", "where")


def where(row: CollectiveRow) -> str:
    """Return which ranks took part."""
    if row.scope == "nodes":
        return f"{row.nodes} × {row.ranks // row.nodes}" if row.nodes else str(row.ranks)
    return {"intra": f"within a node ({row.ranks})", "inter": f"{row.nodes} × 1"}[row.scope]


def format_time(seconds: float) -> str:
    """Return three figures and the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 1000 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def format_rate(rate: float | None) -> str:
    """Return three figures; n/a where there is no such rate."""
    if rate is None:
        return "n/a"
    return f"{rate:.0f}" if rate >= 1000 else f"{rate:.3g}" if rate >= 0.01 else f"{rate:.2g}"


def columns_for(room: int, widths: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the columns that `room` has place for; the few that a row cannot do without stay."""
    chosen_columns = list(range(len(COLUMNS)))
    for name in LEAST_NEEDED:
        if sum(widths[column] for column in chosen_columns) <= room:
            break
        chosen_columns.remove(COLUMNS.index(name))
    return tuple(chosen_columns)


def cells(row: CollectiveRow) -> tuple[str, ...]:
    """Return one line of the table."""
    bus = row.busbw_gb_s
    return (
        where(row),
        row.collective,
        row.dtype,
        row.place,
        format_bytes(row.bytes),
        format_time(row.median_s),
        format_time(row.p95_s),
        f"{row.spread:.0%}",
        format_rate(row.algbw_gb_s),
        format_rate(bus),
        format_rate(None if bus is None else 8 * bus),
        str(sum(wrong.count for wrong in row.wrong)),
    )


def over_nodes(series: Series) -> tuple[CollectiveRow, ...]:
    """Return, of all_reduce (or the first collective that was measured), the largest size that every node count has."""
    rows = [row for row in series.rows if row.scope == "nodes"]
    if not rows:
        return ()
    names = [row.collective for row in rows]
    name = "all_reduce" if "all_reduce" in names else names[0]
    first = next(row for row in rows if row.collective == name)
    like_rows = [row for row in rows if (row.collective, row.dtype, row.place) == (name, first.dtype, first.place)]
    sizes = [{row.bytes for row in like_rows if row.nodes == nodes} for nodes in {row.nodes for row in like_rows}]
    common = set.intersection(*sizes)
    return (
        tuple(sorted((row for row in like_rows if row.bytes == max(common)), key=lambda row: row.nodes))
        if common
        else ()
    )


def node_cells(row: CollectiveRow) -> tuple[str, ...]:
    """Return one line of the table over node counts, as the reference document has it, with units."""
    bus, algorithm = row.busbw_gb_s, row.algbw_gb_s
    rates = (bus, None if bus is None else 8 * bus, algorithm, 8 * algorithm)
    return (str(row.nodes), str(row.ranks), row.collective, format_bytes(row.bytes), *map(format_rate, rates))


def document(series: Series, judgements: Sequence[Judgement], findings: Sequence[Remark], site: str) -> dict[str, Any]:
    """Return the stable JSON of `--json`."""
    return {
        "site": site,
        "complete": series.complete,
        "unreadable_lines": series.unreadable,
        "refused": series.refused or None,
        "start": to_builtins(series.start),
        "rows": [_row(row, judgement) for row, judgement in zip_equal(series.rows, judgements)],
        "absent": to_builtins(series.absent),
        "pairs": [{"nodes": list(pair), "gb_s": rate} for pair, rate in sorted(pair_rates(series.pairs).items())],
        "probes": to_builtins(series.probes),
        "peaks": [_share(share) for share in shares_of_peak(series)],
        "findings": to_builtins(findings),
    }


def _share(share: Share) -> dict[str, Any]:
    return {**to_builtins(share), "of_peak": share.of_peak}


def _row(row: CollectiveRow, judgement: Judgement) -> dict[str, Any]:
    row_fields: dict[str, Any] = to_builtins(row)
    row_fields.pop("kind", None)
    return {
        **row_fields,
        "median_s": row.median_s,
        "p95_s": row.p95_s,
        "spread": row.spread,
        "algbw_gb_s": row.algbw_gb_s,
        "busbw_gb_s": row.busbw_gb_s,
        **{f"judged_{key}": value for key, value in to_builtins(judgement).items()},
    }
