"""One page of HTML that opens without a network: no script, no font, no link. Pure."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Callable, Sequence
from html import escape

from muster.older import zip_equal
from muster_bench.judge import Judgement, Remark
from muster_bench.order import format_bytes
from muster_bench.pairs import pair_rates
from muster_bench.peaks import shares_of_peak
from muster_bench.results import CollectiveRow, ProbeResult, Series
from muster_bench.table import COLUMNS, NODE_COLUMNS, cells, format_rate, node_cells, over_nodes

_HUES = ("#2563c9", "#c2571a", "#12836f", "#9a3fb5", "#a8790b", "#c0365e")
_ORDER = {"broken": 0, "slow": 1, "pass": 2, "unjudged": 3}
_SYMBOL = {"broken": "✕", "slow": "▲", "pass": "✓", "unjudged": "–"}
_NUMBERS_FROM = 4
"""The first column of the table that holds a number."""

_AGAINST = {"profile": "profile", "line rate": "line rate", "history": "history", "values": "values", "nothing": ""}
_MOST_REASONS = 12

STYLE = """
:root{color-scheme:light dark;--paper:#fcfcfa;--ink:#1c1d1f;--soft:#63666b;--rule:#e2e2dd;--panel:#fff;
--good:#16794c;--warn:#a05a00;--bad:#b3261e;--heat:37 99 201}
@media(prefers-color-scheme:dark){:root{--paper:#141517;--ink:#e9e9e6;--soft:#9b9ea4;--rule:#2c2e32;--panel:#1b1c1f;
--good:#5cc993;--warn:#e6a94a;--bad:#f2857c;--heat:110 160 245}.lines{filter:brightness(1.35)}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Inter,Roboto,"Helvetica Neue",sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:68rem;margin:0 auto;padding:3.5rem 1.5rem 5rem}
h1{font-size:2rem;line-height:1.15;letter-spacing:-.02em;margin:0 0 .4rem;font-weight:650}
h2{font-size:1.15rem;letter-spacing:-.01em;margin:3.2rem 0 .3rem;font-weight:620}
p{margin:.2rem 0 1rem;max-width:44rem}.soft,figcaption,dt,th{color:var(--soft)}
.verdict{display:inline-flex;gap:.5rem;align-items:baseline;font-weight:620}
.pass{color:var(--good)}.slow{color:var(--warn)}.broken{color:var(--bad)}.unjudged{color:var(--soft)}
ul{padding:0;list-style:none;margin:1rem 0}li{padding:.35rem 0;border-top:1px solid var(--rule)}
figure{margin:1rem 0;overflow-x:auto}svg{height:auto;display:block}
svg text{font:12px ui-sans-serif,system-ui,sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .name{font-weight:600}svg .grid{stroke:var(--rule)}svg .halo{stroke:var(--paper);stroke-width:4;paint-order:stroke}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;width:100%}
th{font-weight:500;text-align:left;padding:.4rem .9rem .4rem 0;border-bottom:1px solid var(--ink);white-space:nowrap}
td{padding:.28rem .9rem .28rem 0;border-bottom:1px solid var(--rule);white-space:nowrap}.n{text-align:right}
details>summary{cursor:pointer;color:var(--soft);margin:.6rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.4rem;font-size:.92rem;margin:1rem 0}dd{margin:0;
overflow-wrap:anywhere}
code{font:.86em ui-monospace,"SF Mono",Menlo,Consolas,monospace}
@media print{body{background:#fff}main{padding:0}details>summary{display:none}}
"""


def page(series: Series, judgements: Sequence[Judgement], findings: Sequence[Remark], site: str) -> str:
    """Return the whole document."""
    start = series.start
    title = f"Bandwidth of {site}"
    ranks = f"nodes: {start.nodes}, ranks: {start.size}, {start.backend}" if start else "nothing was measured"
    time_text = dt.datetime.fromtimestamp(start.time, dt.timezone.utc).strftime("%-d %B %Y, %H:%M UTC") if start else ""
    parts = [
        f'<h1>{escape(title)}</h1><p class="soft">{escape(ranks)} · {time_text}</p>',
        _headline(judgements, findings),
        _findings(series, findings),
        _over_size(series),
        _over_nodes(series),
        _pairs(series),
        _probes(series),
        _rows(series, judgements),
        _absent(series),
        _conditions(series),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _headline(judgements: Sequence[Judgement], findings: Sequence[Remark]) -> str:
    verdicts = [*(judgement.verdict for judgement in judgements), *(finding.verdict for finding in findings)]
    worst = min(verdicts, key=lambda verdict: _ORDER[verdict], default="unjudged")
    words = {
        "broken": "Broken: something here does not do what it should.",
        "slow": "Slow: usable, and below what it should give.",
        "pass": "Passes: as fast as expected.",
        "unjudged": "Measured, but no value is known to compare it with.",
    }[worst]
    return f'<p class="verdict {worst}"><span aria-hidden="true">{_SYMBOL[worst]}</span>{words}</p>'


def _findings(series: Series, findings: Sequence[Remark]) -> str:
    items = [
        f'<li><span class="{finding.verdict}">{escape(finding.what)}</span> · {escape(finding.text)}</li>'
        for finding in findings
    ]
    if not series.complete:
        items.append(
            '<li><span class="broken">cut short</span> · the series did not end; what was measured stands</li>'
        )
    return f"<ul>{''.join(items)}</ul>" if items else ""


# --- pictures -------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 860, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 132, 14, 40


def _over_size(series: Series) -> str:
    most_nodes = max((row.nodes for row in series.rows if row.scope == "nodes"), default=0)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in series.rows:
        rate = row.busbw_gb_s
        if row.scope == "nodes" and row.nodes == most_nodes and rate and row.place == _place(series, row):
            name = (
                row.collective
                if len({other_row.dtype for other_row in series.rows}) == 1
                else f"{row.collective} {row.dtype}"
            )
            lines.setdefault(name, []).append((row.bytes, rate))
    if not any(len(points) > 1 for points in lines.values()):
        return ""
    sizes = sorted({size for points in lines.values() for size, _ in points})
    ticks = _powers(sizes)
    picture = chart(lines, ticks, lambda size: format_bytes(int(size)))
    return figure(
        "Bandwidth over size", f"Bus bandwidth in GB/s, all {most_nodes} nodes; both axes logarithmic.", picture
    )


def _place(series: Series, row: CollectiveRow) -> str:
    places = {other_row.place for other_row in series.rows if other_row.collective == row.collective}
    return "out" if "out" in places else "in"


def _powers(sizes: Sequence[float]) -> list[float]:
    """Return every power of two from least to most, thinned to at most eight."""
    low, high = math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1]))
    step = max(1, -(-(high - low) // 7))
    return [2.0**exponent for exponent in range(low, high + 1, step)]


def _over_nodes(series: Series) -> str:
    rows = over_nodes(series)
    if len(rows) < 2:
        return ""
    bus = [(float(row.nodes), row.busbw_gb_s) for row in rows if row.busbw_gb_s is not None]
    lines = {"bus": bus, "algorithm": [(float(row.nodes), row.algbw_gb_s) for row in rows]}
    ticks = [float(row.nodes) for row in rows]
    picture = chart(lines, ticks, lambda count: f"{count:.0f}", from_zero=True)
    head = "".join(f'<th class="{"n" if index != 2 else ""}">{name}</th>' for index, name in enumerate(NODE_COLUMNS))
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{"n" if i != 2 else ""}">{escape(cell)}</td>' for i, cell in enumerate(node_cells(row)))
        + "</tr>"
        for row in rows
    )
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    words = f"{rows[0].collective} of {format_bytes(rows[0].bytes)}, in GB/s over the number of nodes."
    return figure("Bandwidth over nodes", words, picture) + table


def chart(
    lines: dict[str, list[tuple[float, float]]],
    x_ticks: Sequence[float],
    label: Callable[[float], str],
    *,
    from_zero: bool = False,
    value: Callable[[float], str] = lambda rate: f"{format_rate(rate)} GB/s",
) -> str:
    """Return lines over a logarithmic x axis, each named at its end."""
    points = [point for line in lines.values() for point in line]
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_low, y_high = min(y for _, y in points), max(y for _, y in points)
    if from_zero:
        y_ticks = _round_ticks(y_high)
        y_low, y_high = 0.0, y_ticks[-1]
    else:
        low, high = math.floor(math.log10(y_low)), math.ceil(math.log10(y_high))
        y_ticks = [10.0**exponent for exponent in range(low, max(high, low + 1) + 1)]
        y_low, y_high = y_ticks[0], y_ticks[-1]

    def across(x: float) -> float:
        part = (math.log(x) - math.log(x_low)) / (math.log(x_high) - math.log(x_low) or 1)
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def down(y: float) -> float:
        part = (y - y_low) / (y_high - y_low) if from_zero else math.log(y / y_low) / math.log(y_high / y_low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    marks = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>'
        f'<text x="{_LEFT - 10}" y="{down(y) + 4:.1f}" text-anchor="end">{f"{y:.9f}".rstrip("0").rstrip(".")}</text>'
        for y in y_ticks
    ]
    marks += [f'<text x="{across(x):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{label(x)}</text>' for x in x_ticks]
    ends = _apart({name: down(line[-1][1]) for name, line in lines.items()})
    for number, (name, line) in enumerate(lines.items()):
        hue = _HUES[number % len(_HUES)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in line)
        dots = "".join(
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.6" fill="{hue}">'
            f"<title>{escape(name)}, {label(x)}: {value(y)}</title></circle>"
            for x, y in line
        )
        marks.append(
            f'<g class="lines"><polyline fill="none" stroke="{hue}" stroke-width="2" stroke-linejoin="round" '
            f'points="{path}"/>{dots}<text class="name" style="fill:{hue}" '
            f'x="{across(line[-1][0]) + 10:.1f}" y="{ends[name] + 4:.1f}">'
            f"{escape(name)}</text></g>"
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" width="{_WIDTH}" height="{_HEIGHT}">{"".join(marks)}</svg>'
    )


def _round_ticks(high: float) -> list[float]:
    """Return four or five round steps from zero to at least `high`."""
    raw = high / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    return [step * index for index in range(math.ceil(high / step) + 1)]


def _apart(heights: dict[str, float], gap: float = 16.0) -> dict[str, float]:
    """Return the heights of labels, moved down where they would lie on each other."""
    placed_heights: dict[str, float] = {}
    last = -math.inf
    for name, height in sorted(heights.items(), key=lambda entry: entry[1]):
        last = max(height, last + gap)
        placed_heights[name] = last
    excess = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {name: height - excess for name, height in placed_heights.items()}


def _pairs(series: Series) -> str:
    rates = pair_rates(series.pairs)
    if not rates or series.start is None:
        return ""
    hosts = series.start.names
    count, highest, lowest = len(hosts), max(rates.values()), min(rates.values())
    side = max(4.0, min(52.0, 560 / count))
    room = 7.2 * max(map(len, hosts)) + 16 if count <= 48 else 8
    marks = []
    for (a, b), rate in rates.items():
        share = rate / highest
        for x, y in ((a, b), (b, a)):
            x_position, top, text = room + x * side, room + y * side, ""
            if side >= 34:
                fill = "#fff" if share > 0.55 else "var(--ink)"
                place = f'x="{x_position + side / 2:.1f}" y="{top + side / 2 + 4:.1f}"'
                text = f'<text {place} text-anchor="middle" style="fill:{fill}">{format_rate(rate)}</text>'
            marks.append(
                f'<rect x="{x_position:.1f}" y="{top:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}" rx="2" '
                f'style="fill:rgb(var(--heat)/{0.08 + 0.87 * share:.3f})">'
                f"<title>{escape(hosts[a])} – {escape(hosts[b])}: "
                f"{format_rate(rate)} GB/s</title></rect>{text}"
            )
    if count <= 48:
        for number, host in enumerate(hosts):
            centre = room + (number + 0.5) * side
            marks.append(f'<text x="{room - 8:.1f}" y="{centre + 4:.1f}" text-anchor="end">{escape(host)}</text>')
            marks.append(
                f'<text transform="translate({centre + 4:.1f} {room - 8:.1f}) rotate(-90)">{escape(host)}</text>'
            )
    size = room + count * side + 2
    box = f'viewBox="0 0 {size:.0f} {size:.0f}" width="{size:.0f}" height="{size:.0f}"'
    picture = f'<svg {box} role="img">{"".join(marks)}</svg>'
    words = (
        f"GB/s each way between two nodes that both send {format_bytes(series.pairs[0].bytes)} a rank; "
        f"{format_rate(lowest)} to {format_rate(highest)}. Empty: the two did not meet in {len(series.pairs)} rounds."
    )
    return figure("Pairs of nodes", words, picture)


def _probes(series: Series) -> str:
    shown_probes = [probe for probe in series.probes if probe.medians]
    if not shown_probes:
        return ""
    shares = {share.probe: f"{share.of_peak:.0%}" for share in shares_of_peak(series)}
    rows = "".join(
        f"<tr><td>{escape(probe.name.replace('_', ' '))}</td><td class=n>{_middle(probe)}</td>"
        f"<td class=n>{format_rate(min(probe.medians.values()))}</td>"
        f"<td class=n>{format_rate(max(probe.medians.values()))}</td>"
        f"<td>{escape(probe.unit)}</td><td class=n>{shares.get(probe.name, '')}</td><td>{_strip(probe)}</td></tr>"
        for probe in shown_probes
    )
    columns = "".join(f'<th class="n">{name}</th>' for name in ("median", "least", "most"))
    head = f"<th></th>{columns}<th>unit</th><th class=n>of the card's peak</th><th>each rank</th>"
    return (
        '<h2>Each rank alone</h2><p class="soft">One dot a rank, from zero on the left to the highest on the right.</p>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _middle(probe: ProbeResult) -> str:
    return format_rate(statistics.median(probe.medians.values()))


def _strip(probe: ProbeResult) -> str:
    highest = max(probe.medians.values()) or 1.0
    dots = "".join(
        f'<circle cx="{6 + 228 * value / highest:.1f}" cy="8" r="3.4" fill="{_HUES[0]}" fill-opacity=".55">'
        f"<title>rank {rank}: {format_rate(value)} {escape(probe.unit)}</title></circle>"
        for rank, value in probe.medians.items()
    )
    axis = '<line class="grid" x1="6" x2="234" y1="8" y2="8"/>'
    return f'<svg class="lines" viewBox="0 0 240 16" width="240" height="16">{axis}{dots}</svg>'


def figure(title: str, words: str, picture: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="soft">{escape(words)}</p><figure>{picture}</figure></section>'


# --- tables ---------------------------------------------------------------------------------------------------------


def _rows(series: Series, judgements: Sequence[Judgement]) -> str:
    if not series.rows:
        return ""
    head = "".join(
        f'<th class="{"n" if index >= _NUMBERS_FROM else ""}">{escape(name)}</th>' for index, name in enumerate(COLUMNS)
    )
    body = []
    for row, judgement in zip_equal(series.rows, judgements):
        figures = "".join(
            f'<td class="{"n" if index >= _NUMBERS_FROM else ""}">{escape(cell)}</td>'
            for index, cell in enumerate(cells(row))
        )
        verdict = f'<td class="{judgement.verdict}">{_SYMBOL[judgement.verdict]} {judgement.verdict}</td>'
        body.append(f"<tr>{figures}{verdict}<td>{escape(_AGAINST[judgement.against])}</td></tr>")
    return (
        f"<section><h2>All figures</h2>{_reasons(judgements)}<details open><summary>{len(body)} rows</summary>"
        f'<div class="scroll"><table><thead><tr>{head}<th>verdict</th><th>against</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></details></section>"
    )


def _reasons(judgements: Sequence[Judgement]) -> str:
    """Return each reason once, the worst first."""
    verdicts = {
        judgement.reason: judgement.verdict
        for judgement in sorted(judgements, key=lambda judgement: -_ORDER[judgement.verdict])
    }
    items = [
        f'<li><span class="{verdict}">{_SYMBOL[verdict]} {verdict}</span> · {escape(reason)}</li>'
        for reason, verdict in reversed(verdicts.items())
    ]
    return f"<ul>{''.join(items[:_MOST_REASONS])}</ul>"


def _absent(series: Series) -> str:
    if not series.absent:
        return ""
    absences = dict.fromkeys(f"{absence.collective}: {absence.reason}" for absence in series.absent)
    items = "".join(f"<li>{escape(text)}</li>" for text in absences)
    return f"<section><h2>Not measured</h2><ul>{items}</ul></section>"


def _conditions(series: Series) -> str:
    start = series.start
    if start is None:
        return ""
    facts = {
        "hosts": ", ".join(start.hosts),
        "device": ", ".join(dict.fromkeys(start.devices)),
        "torch": ", ".join(dict.fromkeys(start.torch)),
        "NCCL": ", ".join(dict.fromkeys(start.nccl)) or "none",
        "image": start.image or "none",
        "trials": f"{start.trials} of up to {start.iterations} runs back to back; the median of the slowest rank's",
        **start.variables,
    }
    items = "".join(f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>" for name, value in facts.items())
    return f"<section><h2>Conditions</h2><dl>{items}</dl></section>"
