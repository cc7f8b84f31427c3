"""The pictures of `--plot`, by matplotlib (the extra `plot`), imported here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.errors import RequestError
from muster.older import zip_equal
from muster_bench.order import format_bytes
from muster_bench.pairs import pair_rates
from muster_bench.results import Series
from muster_bench.table import format_rate, over_nodes

FORMATS = (".png", ".svg", ".pdf")

_HUES = ("#2563c9", "#c2571a", "#12836f", "#9a3fb5", "#a8790b", "#c0365e")
_SOFT, _RULE = "#63666b", "#e2e2dd"


def draw_plots(series: Series, path: Path, site: str) -> None:
    """Draw bandwidth over size, over nodes, and the pairs as a heat map: what there is, side by side in one file."""
    if path.suffix.lower() not in FORMATS:
        raise RequestError(
            f"--plot {path}: no picture of the kind {path.suffix!r}", hint=f"end it in {', '.join(FORMATS)}"
        )
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    pictures = [
        picture
        for picture, has_data in (
            (_over_size, bool(_lines(series))),
            (_over_nodes, len(over_nodes(series)) > 1),
            (_heat, len(series.pairs) > 0),
        )
        if has_data
    ]
    if not pictures:
        raise RequestError(
            "there is nothing to draw: the series holds no collective of two ranks and no pairs",
            hint="measure two ranks or more: muster bench -N 2",
        )
    with plt.rc_context({"font.family": ["DejaVu Sans"], "font.size": 9, "svg.fonttype": "none"}):
        figure, places = plt.subplots(
            1, len(pictures), figsize=(6.2 * len(pictures), 4.2), squeeze=False, layout="constrained"
        )
        for picture, axes in zip_equal(pictures, places[0]):
            picture(series, axes)
        figure.suptitle(f"Bandwidth of {_measured(series, site)}", x=0.01, ha="left", fontsize=13, fontweight="bold")
        figure.savefig(path, dpi=160)
        plt.close(figure)


def _measured(series: Series, site: str) -> str:
    """Return the site and the hosts that were measured; "generic" is not the name of a place."""
    hosts = series.start.names if series.start else ()
    shown_hosts = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    if site == "generic" and shown_hosts:
        return shown_hosts
    return f"{site}: {shown_hosts}" if shown_hosts else site


def _lines(series: Series) -> dict[str, list[tuple[int, float]]]:
    most_nodes = max((row.nodes for row in series.rows if row.scope == "nodes"), default=0)
    lines: dict[str, list[tuple[int, float]]] = {}
    first: dict[str, tuple[str, str]] = {}
    for row in series.rows:
        rate = row.busbw_gb_s
        if row.scope != "nodes" or row.nodes != most_nodes or rate is None:
            continue
        if first.setdefault(row.collective, (row.dtype, row.place)) == (row.dtype, row.place):
            lines.setdefault(row.collective, []).append((row.bytes, rate))
    return lines


def _quiet(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)
    axes.tick_params(colors=_SOFT, length=0)


def _legend(axes: Any) -> None:
    """Draw the legend below the picture, where no line runs."""
    position = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
    axes.legend(frameon=False, labelcolor="linecolor", handlelength=1.2, ncols=3, **position)


def _over_size(series: Series, axes: Any) -> None:
    from matplotlib.ticker import LogLocator

    lines = _lines(series)
    for hue, (name, points) in zip(_HUES * 2, lines.items()):
        axes.plot(*zip(*points), color=hue, linewidth=1.8, marker="o", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({size for points in lines.values() for size, _ in points})
    shown_sizes = sizes[:: max(1, -(-len(sizes) // 7))]
    axes.set_xticks(shown_sizes, [format_bytes(size) for size in shown_sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    _quiet(axes, "over size: bus bandwidth, GB/s")
    _legend(axes)


def _over_nodes(series: Series, axes: Any) -> None:
    rows = over_nodes(series)
    nodes = [row.nodes for row in rows]
    bus = [float("nan") if row.busbw_gb_s is None else row.busbw_gb_s for row in rows]
    axes.plot(nodes, bus, color=_HUES[0], linewidth=1.8, marker="o", markersize=3.5, label="bus")
    algorithm = [row.algbw_gb_s for row in rows]
    axes.plot(nodes, algorithm, color=_HUES[1], linewidth=1.8, marker="o", markersize=3.5, label="algorithm")
    axes.set_xscale("log", base=2)
    axes.set_xticks(nodes, [str(count) for count in nodes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.set_xlabel("nodes", color=_SOFT)
    _quiet(axes, f"over nodes: {rows[0].collective} of {format_bytes(rows[0].bytes)}, GB/s")
    _legend(axes)


def _heat(series: Series, axes: Any) -> None:
    rates = pair_rates(series.pairs)
    hosts = series.start.names if series.start else tuple(map(str, range(1 + max(b for _, b in rates))))
    count = len(hosts)
    cells = [[float("nan")] * count for _ in range(count)]
    for (a, b), rate in rates.items():
        cells[a][b] = cells[b][a] = rate
    highest = max(rates.values())
    image = axes.imshow(cells, cmap="Blues", vmin=0, vmax=highest, interpolation="nearest")
    if count <= 16:
        axes.set_xticks(range(count), hosts, rotation=90)
        axes.set_yticks(range(count), hosts)
    if count <= 12:
        for (a, b), rate in rates.items():
            for x, y in ((a, b), (b, a)):
                colour = "white" if rate > 0.55 * highest else "black"
                axes.text(x, y, format_rate(rate), ha="center", va="center", color=colour, fontsize=8)
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0.08, 0.04, 0.84)))  # beside the square, not the cell
    bar.outline.set_visible(False)
    axes.set_anchor("W")
    _quiet(axes, "pairs of nodes: GB/s each way")
    axes.spines["bottom"].set_visible(False)
