"""What a GPU gave, held against its maker's figures. The measured shares are other people's (peaks.toml)."""

import re
from pathlib import Path

import pytest

import muster_bench
from bench.results import start
from muster.older import tomllib
from muster.sites.load import load
from muster_bench.judge import judge
from muster_bench.peaks import card_named, read_cards, shares_of_peak
from muster_bench.results import ProbeResult, Series

PACKAGE = Path(muster_bench.__file__).parent
H100 = "NVIDIA H100 80GB HBM3"


def series_of(device: str, **values: float) -> Series:
    probes = tuple(
        ProbeResult(name=name, unit="TFLOP/s", more_is_better=True, by_rank=((value, value),))
        for name, value in values.items()
    )
    return Series(start=start(1, 1, device), probes=probes, complete=True)


def verdicts(series: Series) -> list[tuple[str, str]]:
    return [(one.what, one.verdict) for one in judge(series, load("generic").profile)[1]]


@pytest.mark.parametrize(
    ("device", "card"),
    [
        (H100, "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA GH200 120GB", "GH200, 96 GB HBM3"),
        ("NVIDIA GH200 480GB", "GH200, 96 GB HBM3"),
        ("NVIDIA GH200 144G HBM3e", "GH200, HBM3e"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM, 80 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe, 80 GB"),
        ("AMD Instinct MI250X", "MI250X, one of its two dies"),
        ("AMD Instinct MI300A", "MI300A"),
    ],
)
def test_torchs_name_of_a_device_finds_its_card(device: str, card: str) -> None:
    found = card_named(device)
    assert found is not None
    assert found.name == card


def test_a_card_that_nobody_described_is_not_judged() -> None:
    series = series_of("NVIDIA GeForce RTX 4090", gemm=3.0)
    assert shares_of_peak(series) == ()
    assert verdicts(series) == []


@pytest.mark.parametrize(
    ("device", "measured"), [(H100, 794.5), ("NVIDIA A100-SXM4-80GB", 271.2), ("NVIDIA GH200 144G HBM3e", 828.6)]
)
def test_the_best_products_that_were_measured_are_no_finding(device: str, measured: float) -> None:
    assert verdicts(series_of(device, gemm=measured)) == []


def test_a_card_at_half_its_clock_is_slow_and_one_without_tensor_cores_is_broken() -> None:
    assert verdicts(series_of(H100, gemm=400)) == [("below the card's peak", "slow")]
    assert verdicts(series_of(H100, gemm=60)) == [("below the card's peak", "broken")]


def test_each_type_is_held_against_its_own_peak() -> None:
    series = series_of(H100, gemm=800, gemm_tf32=400, gemm_fp32=55, gemm_fp64=60, memory_copy=3000)
    assert [share.peak for share in shares_of_peak(series)] == [989, 494.5, 67, 66.9, 3350]
    assert verdicts(series) == []


def test_every_peak_has_a_source_in_the_table() -> None:
    table = tomllib.loads((PACKAGE / "peaks.toml").read_text())
    used = {source for card in read_cards() for source in card.sources}
    assert used == table["sources"].keys()
    assert all(re.search(r" [0-9a-f]{40}$|\(\d{4}-\d\d-\d\d\)$", source) for source in table["sources"].values())
    assert all(card.sources and card.tflops for card in read_cards())
    assert len(read_cards()) >= 8
