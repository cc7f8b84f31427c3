"""The limits of a verdict at the last value on each side, and what is compared with what."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.results import MIB, round_of, row, start
from muster.errors import RequestError
from muster.sites.load import load
from muster.sites.schema import Bandwidth
from muster_bench.history import EarlierRow, History
from muster_bench.judge import _held, _published, _slow_pairs, judge_row, stragglers
from muster_bench.order import format_bytes, parse_sizes
from muster_bench.page import _conditions, _over_size, _pairs, _strip
from muster_bench.pairs import suspects
from muster_bench.peaks import card_named, shares_of_peak
from muster_bench.results import Pairs, ProbeResult, Series, read_line
from muster_bench.table import COLUMNS, LEAST_NEEDED, columns_for, document
from muster_bench.verbs.measure import read_log


@pytest.mark.parametrize(
    ("rate", "verdict"), [(9.0, "pass"), (8.99, "slow"), (5.01, "slow"), (5.0, "broken"), (4.0, "broken")]
)
def test_nine_tenths_pass_and_half_is_broken(rate: float, verdict: str) -> None:
    assert _held(rate, 10.0, "history", "x").verdict == verdict


@pytest.mark.parametrize(("rate", "verdict"), [(9.5, "pass"), (9.4, "slow"), (7.0, "broken"), (7.1, "slow")])
def test_a_site_s_own_tolerance_and_floor_come_first(rate: float, verdict: str) -> None:
    assert _held(rate, 10.0, "profile", "x", tolerance=0.05, broken_gb_s=7.0).verdict == verdict


def test_a_published_size_counts_up_to_a_tenth_above_the_measured_one() -> None:
    known = Bandwidth(nodes=2, ranks_per_node=8, size_mib=110.0, busbw_gb_s=15.3, how="")
    profile = replace(load("generic").profile, bandwidth=(known,))
    assert _published(row(9.0, 2, 16, 100 * MIB), profile) is known
    assert _published(row(9.0, 2, 16, 99 * MIB), profile) is None
    assert _published(row(9.0, 2, 8, 100 * MIB), profile) is None
    assert _published(row(9.0, 4, 16, 100 * MIB), profile) is None
    assert _published(replace(row(9.0, 2, 16, 100 * MIB), scope="inter"), profile) is None
    assert _published(replace(row(9.0, 2, 16, 100 * MIB), collective="all_gather"), profile) is None


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.7201, "pass"), (0.719, "slow"), (0.4, "slow"), (0.399, "broken"), (1.0, "pass"), (1.01, "pass")],
)
def test_a_row_is_held_against_the_line(share: float, verdict: str) -> None:
    generic = load("generic").profile
    profile = replace(generic, fabric=replace(generic.fabric, gbit_per_node=800.0))
    measured = row(share * 100.0, 4, 16, 64 * MIB)
    judged = judge_row(measured, profile, "GPU")
    assert (judged.verdict, judged.against) == (verdict, "line rate")
    assert ("a part never left the node" in judged.reason) is (share > 1)
    for other in (
        replace(measured, bytes=64 * MIB - 4),
        replace(measured, scope="inter"),
        replace(measured, collective="broadcast"),
    ):
        assert judge_row(other, profile, "GPU").verdict == "unjudged"
    assert judge_row(measured, generic, "GPU").verdict == "unjudged"
    assert judge_row(row(50.0, 1, 4, 64 * MIB), profile, "GPU").verdict == "unjudged"


def _probe(name: str, unit: str, *values: float, more: bool = True) -> Series:
    by_rank = tuple((value,) for value in values)
    return Series(probes=(ProbeResult(name=name, unit=unit, more_is_better=more, by_rank=by_rank),))


@pytest.mark.parametrize(
    ("series", "count"),
    [
        (_probe("gemm", "TFLOPS", 100, 100, 94), 1),
        (_probe("gemm", "TFLOPS", 100, 100, 95), 0),
        (_probe("gemm", "TFLOPS", 100, 94), 0),
        (_probe("memory_copy", "GB/s", 100, 100, 90), 0),
        (_probe("memory_copy", "GB/s", 100, 100, 89), 1),
        (_probe("other", "GB/s", 100, 100, 50), 0),
        (_probe("other", "GB/s", 100, 100, 49), 1),
        (_probe("import", "s", 1, 1, 2.5, more=False), 1),
        (_probe("import", "s", 0.5, 0.5, 1.5, more=False), 1),
        (_probe("import", "s", 0.5, 0.5, 1.4, more=False), 0),
        (_probe("import", "s", 1, 1, 0.1, more=False), 0),
        (_probe("latency", "us", 1, 1, 3, more=False), 1),
    ],
)
def test_a_rank_that_does_worse_than_the_others_is_named(series: Series, count: int) -> None:
    assert len(stragglers(series)) == count


def test_a_rank_whose_own_values_differ_as_much_is_not_named() -> None:
    noisy = ProbeResult(name="gemm", unit="TFLOPS", more_is_better=True, by_rank=((100,), (100,), (60, 100, 80)))
    assert stragglers(Series(probes=(noisy,))) == ()
    assert len(stragglers(Series(probes=(replace(noisy, by_rank=((100,), (100,), (80, 80))),)))) == 1


@pytest.mark.parametrize(
    ("rates", "nodes"),
    [
        ({(0, 1): 10.0}, []),
        ({(0, 1): 10.0, (0, 2): 9.0, (1, 2): 9.0}, []),
        ({(0, 1): 10.0, (0, 2): 8.9, (1, 2): 8.9}, [(2,)]),
        ({(0, 1): 10.0, (2, 3): 10.0, (0, 2): 5.0, (1, 3): 10.0}, []),
        ({(0, 1): 10.0, (2, 3): 10.0, (0, 2): 4.9, (1, 3): 10.0}, [(0, 2)]),
        ({(0, 1): 10.0, (0, 2): 3.0, (1, 2): 4.0, (0, 3): 10.0, (1, 3): 10.0}, [(2,)]),
    ],
)
def test_slow_nodes_are_named_and_slow_links_between_good_ones(
    rates: dict[tuple[int, int], float], nodes: list[tuple[int, ...]]
) -> None:
    assert [suspect.nodes for suspect in suspects(rates)] == nodes


def test_a_row_is_compared_with_the_same_measurement_of_the_same_place() -> None:
    made = EarlierRow(time=0, site="a", hosts=(), device="GPU", torch="", nccl="", row=row(10.0, 2, 8, MIB))
    history = History(
        (made, replace(made, site="b"), replace(made, device="CPU"), replace(made, row=row(9.0, 4, 16, MIB)))
    )
    assert [round(rate, 3) for rate in history.earlier(row(1.0, 2, 8, MIB), "a", "GPU")] == [10.0]
    assert history.usual(row(1.0, 2, 8, 2 * MIB), "a", "GPU") is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1 << 30, "1 GiB"),
        (3 << 20, "3 MiB"),
        (4 * 10**9, "4 GB"),
        (10 << 20, "10 MiB"),
        ((10 << 20) + 4, "10.0 MiB"),
        ((10 << 20) - 4, "10240.0 KiB"),
        (10 << 10, "10 KiB"),
        ((10 << 10) + 1, "10.0 KiB"),
        ((10 << 10) - 1, "10239 B"),
        (1025, "1025 B"),
    ],
)
def test_a_size_has_the_unit_that_makes_it_exact(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_a_range_of_one_size_is_one_and_one_backwards_is_refused() -> None:
    assert parse_sizes("8B..8B") == (8,)
    assert parse_sizes("8B..31B") == (8, 16)
    assert parse_sizes("16B,8B,8B") == (8, 16)
    with pytest.raises(RequestError, match="run backwards"):
        parse_sizes("9B..8B")


def test_columns_go_one_by_one_until_the_rest_has_room() -> None:
    widths = [10] * len(COLUMNS)
    assert len(columns_for(10 * len(COLUMNS), widths)) == len(COLUMNS)
    assert len(columns_for(10 * len(COLUMNS) - 1, widths)) == len(COLUMNS) - 1
    assert len(columns_for(0, widths)) == len(COLUMNS) - len(LEAST_NEEDED)


def test_a_share_of_the_peak_is_told_of_a_probe_that_has_one() -> None:
    begun = replace(start(), devices=("NVIDIA A100-SXM4-80GB",))
    assert card_named("nvidia a100-sxm4-80gb") is not None
    one = ProbeResult(name="gemm_fp16", unit="TFLOPS", more_is_better=True, by_rank=((250.0,), ()))
    probes = (one, replace(one, name="import"), replace(one, by_rank=((), ())))
    assert [share.value for share in shares_of_peak(Series(start=begun, probes=probes))] == [250.0]
    assert shares_of_peak(Series(start=replace(begun, devices=("A", "B")), probes=probes)) == ()
    assert shares_of_peak(Series(probes=probes)) == ()


def test_a_line_of_results_may_lie_behind_other_text_or_be_one_alone() -> None:
    assert read_line("a line of the job") is None
    assert read_line('{"other": 1}') is None
    assert read_line('{"kind":"refused","reason":"x"}\n') is not None
    with pytest.raises(ValueError, match=r"."):
        read_line('{"kind"')


def test_a_log_without_a_start_is_read_if_it_says_why(tmp_path: Path) -> None:
    (tmp_path / "bench.jsonl").write_text('{"kind":"refused","reason":"too few GPUs"}\n')
    assert read_log(tmp_path).refused == "too few GPUs"
    assert document(read_log(tmp_path), (), (), "a")["refused"] == "too few GPUs"
    (tmp_path / "bench.jsonl").write_text("nothing\n")
    with pytest.raises(RequestError, match="holds no results"):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("hosts", "names", "texts"),
    [(2, True, True), (16, True, True), (17, True, False), (48, True, False), (49, False, False)],
)
def test_the_picture_of_pairs_has_names_and_numbers_while_there_is_room(hosts: int, names: bool, texts: bool) -> None:
    begun = replace(start(), hosts=tuple(f"host-{number}" for number in range(hosts)))
    rounds = Pairs(
        round=0, bytes=10**9, pairs=((0, 1, 0.1, 0, 0.0), *([(0, hosts - 1, 0.2, 0, 0.0)] if hosts > 2 else []))
    )
    assert _pairs(Series(pairs=(rounds,))) == ""
    assert _pairs(Series(start=begun)) == ""
    text = _pairs(Series(start=begun, pairs=(rounds,)))
    assert ('text-anchor="end">host-0<' in text) is names
    assert ('text-anchor="middle" style="fill' in text) is texts
    assert "<title>host-0 – host-1: 10 GB/s</title>" in text


def test_what_was_not_there_has_a_word_in_the_conditions() -> None:
    assert _conditions(Series()) == ""
    for image, nccl, word in ((None, (), "none"), ("/i/x.sif", ("2.28.3",), "/i/x.sif")):
        text = _conditions(Series(start=start(image=image, nccl=nccl)))
        assert f"<dt>image</dt><dd><code>{word}</code>" in text
        assert (f"<dt>NCCL</dt><dd><code>{nccl[0] if nccl else 'none'}</code>") in text


def test_ranks_that_measured_nothing_stand_at_zero() -> None:
    probe = ProbeResult(name="x", unit="s", more_is_better=True, by_rank=((0.0,), (0.0,)))
    assert _strip(probe).count('cx="6.0"') == 2
    assert 'cx="234.0"' in _strip(replace(probe, by_rank=((1.0,), (2.0,))))


def test_the_lines_over_the_sizes_are_of_the_most_nodes() -> None:
    whole = [row(9.0, 2, 8, size) for size in (MIB, 2 * MIB)]
    assert "all_reduce" in _over_size(Series(rows=tuple(whole)))
    assert "all_reduce float32" in _over_size(Series(rows=(*whole, row(9.0, 1, 4, MIB, dtype="int8"))))
    for other in ([whole[0], row(9.0, 1, 4, MIB)], [replace(each, scope="inter") for each in whole], whole[:1]):
        assert "all_reduce" not in _over_size(Series(rows=tuple(other)))


@pytest.mark.parametrize(
    ("rate", "known", "what"),
    [
        (8.0, True, "slow: slow node: n2: "),
        (4.9, True, "broken: slow node: n2: "),
        (8.0, False, "slow: slow node: 2: "),
    ],
)
def test_a_slow_node_is_named_as_far_as_it_is_known(rate: float, known: bool, what: str) -> None:
    rates = {(0, 1): 10.0, (0, 2): rate, (1, 2): rate}
    series = Series(start=start(3) if known else None, pairs=(round_of(0, rates),))
    (found,) = _slow_pairs(series)
    assert f"{found.verdict}: {found.what}: {found.text}".startswith(what)
    wrong = replace(series.pairs[0], pairs=((0, 1, 0.1, 3, 0.0),))
    (found,) = _slow_pairs(replace(series, pairs=(wrong,)))
    assert found.text == f"{'n0 – n1' if known else '0 – 1'}: 3 wrong elements in round 0"
