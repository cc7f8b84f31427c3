"""Pass, slow or broken, and against what. Pure.

A row is held against what the site publishes for it, else against the share of the line rate that is usual for its
hardware, and, where the user asks for it, against this machine's own earlier runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from muster.sites.schema import Bandwidth, Profile
from muster_bench.history import History
from muster_bench.pairs import Suspicion, pair_noise, pair_rates, suspects
from muster_bench.peaks import Share, shares_of_peak
from muster_bench.results import CollectiveRow, ProbeResult, Series, Start

Verdict = Literal["pass", "slow", "broken", "unjudged"]

_PASS = 0.90
"""The share of the reference from which nccl-tests (NCCL_TESTS_MIN_BW) lets a result pass."""

_BROKEN = 0.50
"""Below half something else was measured: another transport, one NIC instead of all, a shared core."""

_LINE_SHARE = 0.80
"""Of the line rate: Ring leaves 76 to 82 % on NVLink, 91 to 96 % on InfiniBand (nccl-tests issues 212, 290, 1576)."""

_SAME_SIZE = 1.10
_LARGE = 64 << 20
"""Below this size latency counts as well: a share of the line rate says nothing there."""

_STRAGGLER = {
    **dict.fromkeys(("gemm", "gemm_fp16", "gemm_tf32", "gemm_fp32", "gemm_fp64"), 0.05),
    **dict.fromkeys(("memory_copy", "host_to_device", "device_to_host"), 0.10),
}
_STRAGGLER_ELSE = 0.50
_SECONDS_WORTH_A_WORD = 1.0
"""Ranks that start half a second apart are not a finding."""


class Judgement(msgspec.Struct, frozen=True):
    """The verdict on one row, what it was held against, and in words."""

    verdict: Verdict
    against: Literal["profile", "line rate", "history", "values", "nothing"]
    reason: str
    expected_gb_s: float | None = None


class Remark(msgspec.Struct, frozen=True):
    """Something else that stands out: which, how bad, in words."""

    what: str
    verdict: Verdict
    text: str


def judge(
    series: Series, profile: Profile, history: History | None = None
) -> tuple[tuple[Judgement, ...], tuple[Remark, ...]]:
    """Return a judgement of every row, in order, and the findings about the whole."""
    device = series.start.devices[0] if series.start else ""
    rows = tuple(judge_row(row, profile, device, series.start, history) for row in series.rows)
    low_shares = (finding for share in shares_of_peak(series) for finding in _below_peak(share))
    return rows, (*_about_start(series), *low_shares, *stragglers(series), *_slow_pairs(series))


def judge_row(
    row: CollectiveRow, profile: Profile, device: str = "", start: Start | None = None, history: History | None = None
) -> Judgement:
    """Judge one row. A wrong element is broken, whatever the speed."""
    if row.wrong:
        return Judgement("broken", "values", _wrong_words(row, start))
    rate = row.busbw_gb_s
    if rate is None:
        return Judgement("unjudged", "nothing", "one rank alone sends nothing: bus bandwidth is n/a")
    if history is not None:
        usual = history.usual(row, profile.name, device)
        if usual is None:
            return Judgement("unjudged", "history", "the history has no earlier run of this row")
        return _held(rate, usual, "history", f"earlier runs here: {usual:.4g} GB/s", tolerance=_noise(row))
    if device == "cpu":
        return Judgement(
            "unjudged", "nothing", "CPU ranks: what a site publishes is of its GPUs; --compare judges these"
        )
    published_rate = _published(row, profile)
    if published_rate is not None:
        words = f"{profile.name} publishes {published_rate.busbw_gb_s:g} GB/s ({published_rate.how})"
        return _held(
            rate, published_rate.busbw_gb_s, "profile", words, published_rate.tolerance, published_rate.broken_gb_s
        )
    return _by_line(row, profile)


def _wrong_words(row: CollectiveRow, start: Start | None) -> str:
    first = row.wrong[0]
    place = f" ({start.host_of(first.rank)})" if start else ""
    total = sum(wrong.count for wrong in row.wrong)
    return f"{total} wrong elements; rank {first.rank}{place}, the first at index {first.first}"


def _noise(row: CollectiveRow) -> float:
    """Return the machine's own spread, where that is more than the usual tolerance."""
    return min(0.4, max(1 - _PASS, 3 * row.spread))


def _published(row: CollectiveRow, profile: Profile) -> Bandwidth | None:
    """Return the published result of the same collective, nodes and ranks, at this size or a smaller one."""
    if row.scope != "nodes":
        return None
    fits = [
        rate
        for rate in profile.bandwidth
        if rate.collective == row.collective
        and rate.nodes == row.nodes
        and rate.nodes * rate.ranks_per_node == row.ranks
        and rate.size_mib * (1 << 20) <= row.bytes * _SAME_SIZE
    ]
    return max(fits, key=lambda rate: rate.size_mib, default=None)


def _held(
    rate: float,
    expected: float,
    against: Literal["profile", "history"],
    words: str,
    tolerance: float | None = None,
    broken_gb_s: float | None = None,
) -> Judgement:
    share = rate / expected
    floor = max(_BROKEN, (broken_gb_s or 0.0) / expected)
    passes = 1 - tolerance if tolerance is not None else _PASS
    verdict: Verdict = "pass" if share >= passes else "broken" if share <= floor else "slow"
    return Judgement(verdict, against, f"{share:.0%} of what is expected; {words}", expected)


# --- line rate ------------------------------------------------------------------------------------------------------


def wire_share(row: CollectiveRow, gbit_per_node: float) -> tuple[float, str]:
    """Return what crossed a node's wire over what it can carry, and how that was counted.

    A ring sends the bus bandwidth over each node's wire. Between two nodes NCCL takes a tree: each half crosses once,
    so the wire carries the algorithm bandwidth, and the bus bandwidth counts it up to twice.
    """
    line = gbit_per_node / 8
    if row.collective == "all_reduce" and row.nodes == 2:
        return row.algbw_gb_s / line, "two nodes: a tree sends each byte once, so algorithm bandwidth is counted"
    return (row.busbw_gb_s or 0.0) / line, "bus bandwidth is counted"


def _by_line(row: CollectiveRow, profile: Profile) -> Judgement:
    no_rate = f"{profile.name} publishes nothing for {row.collective} on {row.nodes} nodes at this size"
    gbit = profile.fabric.gbit_per_node
    if row.nodes < 2 or gbit is None or row.scope != "nodes" or row.collective not in _OVER_ALL_NICS:
        return Judgement("unjudged", "nothing", no_rate)
    if row.bytes < _LARGE:
        return Judgement("unjudged", "nothing", f"{no_rate}, and below 64 MiB the line rate says nothing")
    share, counted_links = wire_share(row, gbit)
    words = f"{share:.0%} of the node's {gbit:g} Gbit/s; {counted_links}"
    if share > 1:
        return Judgement(
            "pass", "line rate", f"{words}; more than the wire carries: a part never left the node", gbit / 8
        )
    good = _LINE_SHARE * _PASS
    verdict: Verdict = "pass" if share >= good else "broken" if share < _LINE_SHARE * _BROKEN else "slow"
    return Judgement(verdict, "line rate", words, _LINE_SHARE * gbit / 8)


_OVER_ALL_NICS = frozenset({"all_reduce", "all_gather", "reduce_scatter"})
"""A broadcast or an exchange of two ranks may well use one NIC of the node."""


# --- one against the others -----------------------------------------------------------------------------------------


def stragglers(series: Series) -> tuple[Remark, ...]:
    """Return ranks that do worse alone than the middle of all ranks, by more than the rank's own spread explains."""
    findings = []
    for probe in series.probes:
        medians = probe.medians
        if len(medians) < 3:
            continue
        usual = statistics.median(medians.values())
        for rank, value in medians.items():
            share = value / usual if probe.more_is_better else usual / value
            if probe.unit == "s" and value - usual < _SECONDS_WORTH_A_WORD:
                continue
            if share < 1 - max(_STRAGGLER.get(probe.name, _STRAGGLER_ELSE), 3 * _spread(probe, rank)):
                host = f" on {series.start.host_of(rank)}" if series.start else ""
                text = f"rank {rank}{host}: {probe.name} {value:.4g} {probe.unit}, the others {usual:.4g}"
                findings.append(Remark("straggler", "slow", text))
    return tuple(findings)


def _spread(probe: ProbeResult, rank: int) -> float:
    values = probe.by_rank[rank]
    return statistics.pstdev(values) / statistics.fmean(values) if len(values) > 1 else 0.0


def _below_peak(share: Share) -> tuple[Remark, ...]:
    share_of_usual = share.of_peak / share.usual
    if share_of_usual >= _PASS:
        return ()
    verdict: Verdict = "broken" if share_of_usual < _BROKEN else "slow"
    return (Remark("below the card's peak", verdict, f"{share.text}; {share.usual:.0%} is usual"),)


def _names_of(suspect: Suspicion, hosts: Sequence[str]) -> str:
    """Return the names of the nodes of a suspicion, in words."""
    return " – ".join(hosts[node] if hosts else str(node) for node in suspect.nodes)


def _slow_pairs(series: Series) -> tuple[Remark, ...]:
    hosts: Sequence[str] = series.start.names if series.start else ()
    pair_findings = [
        Remark(
            "slow node" if len(suspect.nodes) == 1 else "slow link",
            "broken" if suspect.share < _BROKEN else "slow",
            f"{_names_of(suspect, hosts)}: {suspect.rate_gb_s:.4g} GB/s "
            f"with its better partners, the others {suspect.usual_gb_s:.4g}"
            if len(suspect.nodes) == 1
            else f"{_names_of(suspect, hosts)}: {suspect.rate_gb_s:.4g} GB/s, "
            f"both do {suspect.usual_gb_s:.4g} with others",
        )
        for suspect in suspects(pair_rates(series.pairs), pair_noise(series.pairs))
    ]
    for pair_round in series.pairs:
        for a, b, _, wrong, _ in pair_round.pairs:
            if wrong:
                names = f"{hosts[a]} – {hosts[b]}" if hosts else f"{a} – {b}"
                pair_findings.append(
                    Remark("wrong values", "broken", f"{names}: {wrong} wrong elements in round {pair_round.round}")
                )
    return tuple(pair_findings)


def _about_start(series: Series) -> tuple[Remark, ...]:
    start = series.start
    if start is None:
        return ()
    findings = []
    for name, values in (("torch", start.torch), ("NCCL", start.nccl), ("device", start.devices)):
        kinds = {
            value: [rank for rank, rank_value in enumerate(values) if rank_value == value]
            for value in dict.fromkeys(values)
        }
        if len(kinds) > 1:
            shown_values = "; ".join(
                f"{value or 'none'} on rank {', '.join(map(str, ranks[:8]))}" for value, ranks in kinds.items()
            )
            findings.append(Remark("ranks differ", "slow", f"{name}: {shown_values}"))
    if start.differing:
        findings.append(Remark("ranks differ", "slow", f"variables: {', '.join(start.differing)}"))
    return tuple(findings)
