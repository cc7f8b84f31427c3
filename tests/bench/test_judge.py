"""Published tables get the verdicts that their publishers give them, and each verdict says what it was held against."""

import pytest
from msgspec.structs import replace

from bench.results import MIB, round_of, row, start
from muster.sites.load import load
from muster.sites.schema import Bandwidth
from muster_bench.history import EarlierRow, History
from muster_bench.judge import judge, judge_row, stragglers
from muster_bench.results import Fault, ProbeResult, Series

GPU = "NVIDIA GH200"
PAYLOAD = 4_000_000_000
"""What the MareNostrum 5 table was measured with: 4 × 10⁹ bytes."""

# Nodes, bus bandwidth and algorithm bandwidth in Gbit/s: the table as it was published, without a unit.
MARENOSTRUM = (
    (1, 2512.1, 1674.7),
    (2, 1192.2, 681.2),
    (4, 655.7, 349.7),
    (8, 658.3, 339.8),
    (16, 662.0, 336.3),
    (32, 663.8, 334.5),
    (64, 660.3, 331.5),
    (128, 633.6, 317.4),
)


@pytest.mark.parametrize(("nodes", "bus_gbit_s", "algorithm_gbit_s"), MARENOSTRUM)
def test_the_published_table_of_marenostrum_passes_and_its_two_columns_agree(
    nodes: int, bus_gbit_s: float, algorithm_gbit_s: float
) -> None:
    measured = row(bus_gbit_s / 8, nodes, 4 * nodes, PAYLOAD)
    assert judge_row(measured, load("marenostrum5").profile, GPU).verdict == "pass"
    assert 8 * measured.algbw_gb_s == pytest.approx(algorithm_gbit_s, rel=0.002)


@pytest.mark.parametrize(
    ("site", "nodes", "ranks", "busbw_gb_s", "verdict"),
    [
        ("lumi", 1, 8, 125.0, "pass"),
        ("lumi", 2, 16, 85.0, "pass"),
        ("lumi", 2, 16, 79.0, "slow"),  # the site's own test allows 5 %
        ("lumi", 2, 16, 10.0, "broken"),
        ("clariden", 2, 8, 122.6, "pass"),
        ("clariden", 2, 8, 123.1, "pass"),
        ("clariden", 2, 8, 90.0, "slow"),
        ("clariden", 2, 8, 5.4, "broken"),
        ("clariden", 2, 2, 22.9, "pass"),
        ("marenostrum5", 4, 16, 60.0, "slow"),
    ],
)
def test_published_rows_get_their_verdict_from_the_profile(
    site: str, nodes: int, ranks: int, busbw_gb_s: float, verdict: str
) -> None:
    size = PAYLOAD if site == "marenostrum5" else 128 * MIB
    judged = judge_row(row(busbw_gb_s, nodes, ranks, size), load(site).profile, GPU)
    assert (judged.verdict, judged.against) == (verdict, "profile")


def test_the_row_of_16_ranks_without_rdma_is_broken() -> None:
    good = Bandwidth(nodes=2, ranks_per_node=8, size_mib=128.0, busbw_gb_s=15.3, how="with RDMA, a published report")
    profile = replace(load("generic").profile, bandwidth=(good,))
    assert judge_row(row(15.3, 2, 16, 128 * MIB), profile, GPU).verdict == "pass"
    assert judge_row(row(3.6, 2, 16, 128 * MIB), profile, GPU).verdict == "broken"


def test_a_size_below_the_published_one_is_not_held_against_it() -> None:
    judged = judge_row(row(1.0, 2, 8, 64 << 10), load("clariden").profile, GPU)
    assert judged.verdict == "unjudged"


def test_two_nodes_are_held_against_the_wire_by_what_crosses_it() -> None:
    profile = replace(load("clariden").profile, bandwidth=())
    judged = judge_row(row(149.0, 2, 8, PAYLOAD), profile, GPU)
    assert judged.against == "line rate"
    assert judged.verdict == "pass"
    assert judged.reason.startswith("85%")
    assert "tree" in judged.reason


def test_more_than_the_wire_carries_is_never_said_without_the_reason() -> None:
    profile = replace(load("clariden").profile, bandwidth=())
    judged = judge_row(row(130.0, 4, 16, PAYLOAD), profile, GPU)
    assert judged.reason.startswith("130%")
    assert "never left the node" in judged.reason


@pytest.mark.parametrize(("busbw_gb_s", "verdict"), [(82.0, "pass"), (60.0, "slow"), (30.0, "broken")])
def test_where_the_site_publishes_nothing_the_line_rate_judges(busbw_gb_s: float, verdict: str) -> None:
    profile = replace(load("clariden").profile, bandwidth=())
    judged = judge_row(row(busbw_gb_s, 8, 32, PAYLOAD), profile, GPU)
    assert (judged.verdict, judged.against) == (verdict, "line rate")


def test_the_history_judges_where_it_is_asked() -> None:
    before = [
        EarlierRow(time=0, site="generic", hosts=("a", "b"), device="cpu", torch="2", nccl="", row=row(rate, 2, 2, MIB))
        for rate in (0.98, 1.0, 1.02)
    ]
    profile, history = load("generic").profile, History(tuple(before))
    verdicts = [judge_row(row(rate, 2, 2, MIB), profile, "cpu", None, history).verdict for rate in (0.95, 0.8, 0.3)]
    assert verdicts == ["pass", "slow", "broken"]
    other = judge_row(row(1.0, 4, 4, MIB), profile, "cpu", None, history)
    assert (other.verdict, other.against) == ("unjudged", "history")


def test_a_wrong_element_is_broken_whatever_the_speed_and_its_rank_is_named() -> None:
    wrong = row(122.6, 2, 8, 128 * MIB, wrong=(Fault(5, 1, 77),))
    judged = judge_row(wrong, load("clariden").profile, GPU, start())
    assert (judged.verdict, judged.against) == ("broken", "values")
    assert "rank 5 (n1)" in judged.reason
    assert "index 77" in judged.reason


def test_cpu_ranks_are_not_held_against_what_gpus_gave() -> None:
    assert judge_row(row(1.0, 2, 8, 128 * MIB), load("clariden").profile, "cpu").verdict == "unjudged"


def test_ranks_that_differ_in_torch_are_named() -> None:
    versions = ("2.9.0",) * 7 + ("2.8.0",)
    _, findings = judge(Series(start=start(torch=versions)), load("generic").profile)
    assert [one.what for one in findings] == ["ranks differ"]
    assert "2.8.0 on rank 7" in findings[0].text


def test_a_rank_that_computes_slower_than_the_others_is_named_with_its_host() -> None:
    steady = tuple((790.0, 791.0, 789.0) for _ in range(7))
    gemm = ProbeResult(name="gemm", unit="TFLOP/s", more_is_better=True, by_rank=(*steady, (700.0, 702.0, 701.0)))
    found = stragglers(Series(start=start(), probes=(gemm,)))
    assert len(found) == 1
    assert found[0].text.startswith("rank 7 on n1: gemm 701 TFLOP/s")


def test_a_slow_node_is_named_by_its_host() -> None:
    rates = {(0, 1): 10.0, (2, 3): 5.5}, {(0, 2): 10.1, (1, 3): 5.4}, {(0, 3): 5.6, (1, 2): 9.9}
    rounds = tuple(round_of(number, each) for number, each in enumerate(rates))
    _, findings = judge(Series(start=start(nodes=4), pairs=rounds), load("generic").profile)
    assert [(one.what, one.text.partition(":")[0]) for one in findings] == [("slow node", "n3")]
