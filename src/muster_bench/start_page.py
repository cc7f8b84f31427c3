"""The page of `muster bench --start`: what a start costs over the number of nodes. It opens without a network. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from html import escape

from muster_bench.page import STYLE, chart, figure
from muster_bench.starts import PHASES, StartRow, usual_s


def seconds(value: float) -> str:
    """Return seconds as a person reads them."""
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def start_page(rows: Sequence[StartRow], earlier: Sequence[StartRow]) -> str:
    """Return the whole document."""
    last = rows[-1]
    title = f"Start of a job on {last.site}"
    when = dt.datetime.fromtimestamp(last.time, dt.timezone.utc).strftime("%-d %B %Y, %H:%M UTC")
    shape = f"up to {last.nodes} nodes, {last.ranks} ranks, {last.device or 'no torch'}"
    lines = {
        phase: [(float(row.nodes), max(row.slowest_s[phase], 1e-3)) for row in rows if phase in row.slowest_s]
        for phase in PHASES
    }
    lines = {phase: points for phase, points in lines.items() if points}
    picture = chart(lines, [float(row.nodes) for row in rows], lambda count: f"{count:.0f}", value=seconds)
    meanings = "".join(f"<dt>{escape(phase)}</dt><dd>{escape(PHASES[phase])}</dd>" for phase in lines)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        f'<h1>{escape(title)}</h1><p class="soft">{escape(shape)} · {when}</p>\n'
        + figure("Seconds over nodes", "The slowest rank of each phase; both axes logarithmic.", picture)
        + f"<dl>{meanings}</dl>"
        + _table(rows, earlier)
        + "\n</main></body></html>\n"
    )


def _table(rows: Sequence[StartRow], earlier: Sequence[StartRow]) -> str:
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in ("nodes", "ranks", *PHASES))
    body = "".join(
        f'<tr><td class="n">{row.nodes}</td><td class="n">{row.ranks}</td>'
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in phase_cells(row, earlier))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        '<p class="soft">The rank in the middle, then the slowest; '
        "in brackets what the slowest took in earlier runs of this site.</p>"
    )


def phase_cells(row: StartRow, earlier: Sequence[StartRow]) -> list[str]:
    """Return a cell for each phase: the rank in the middle, the slowest, and what was usual."""
    cells = []
    for phase in PHASES:
        if phase not in row.slowest_s:
            cells.append("–")
            continue
        usual = usual_s(row, phase, earlier)
        before = "" if usual is None else f" ({seconds(usual)})"
        cells.append(f"{seconds(row.median_s[phase])} … {seconds(row.slowest_s[phase])}{before}")
    return cells
