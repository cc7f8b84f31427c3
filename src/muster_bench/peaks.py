"""What a rank measured alone, held against the published peak of its card. Pure, but for reading its own table."""

from __future__ import annotations

import statistics
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from muster_bench.results import ProbeResult, Series

_TYPES = {"gemm": "bf16", "gemm_fp16": "fp16", "gemm_tf32": "tf32", "gemm_fp32": "fp32", "gemm_fp64": "fp64"}
"""Probe → the type of number that it multiplies on a GPU."""

_USUAL_COMPUTE = 0.75
"""Of the peak: the best matrix products that were measured reach 80 to 87 % on A100, H100 and GH200 (peaks.toml)."""

_USUAL_MEMORY = 0.85
"""Of the peak: copies on an H100 and an H200 moved 90 %."""


class GpuModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU as its maker describes it."""

    name: str
    matches: tuple[str, ...]
    tflops: dict[str, float]
    sources: tuple[str, ...]
    memory_gb_s: float | None = None

    def peak_of(self, probe: str) -> float | None:
        """Return the published peak that this probe is held against; None where there is none."""
        return self.memory_gb_s if probe == "memory_copy" else self.tflops.get(_TYPES.get(probe, ""))


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, str]
    card: tuple[GpuModel, ...]


class Share(msgspec.Struct, frozen=True):
    """The part of the published peak that the middle of the ranks reached."""

    probe: str
    card: str
    value: float
    peak: float
    usual: float
    unit: str

    @property
    def of_peak(self) -> float:
        return self.value / self.peak

    @property
    def text(self) -> str:
        """Say what was measured, and of what."""
        peak = f"{self.of_peak:.0%} of the published {self.peak:g} ({self.card})"
        return f"{self.probe} {self.value:.4g} {self.unit}, {peak}"


@cache
def read_cards() -> tuple[GpuModel, ...]:
    """Return every card of the table."""
    return _read_table().card


def _read_table() -> _Table:
    return msgspec.toml.decode(files("muster_bench").joinpath("peaks.toml").read_bytes(), type=_Table)


def card_named(device: str) -> GpuModel | None:
    """Return the card that torch calls `device`."""
    name = device.lower()
    return next((card for card in read_cards() if any(part in name for part in card.matches)), None)


def shares_of_peak(series: Series) -> tuple[Share, ...]:
    """Return each probe's share of its card's peak, where all ranks have the same card and it is in the table."""
    devices = set(series.start.devices) if series.start else set()
    card = card_named(devices.pop()) if len(devices) == 1 else None
    if card is None:
        return ()
    return tuple(share for probe in series.probes for share in _share(probe, card))


def _share(probe: ProbeResult, card: GpuModel) -> tuple[Share, ...]:
    peak = card.peak_of(probe.name)
    if peak is None or not probe.medians:
        return ()
    usual = _USUAL_MEMORY if probe.name == "memory_copy" else _USUAL_COMPUTE
    value = statistics.median(probe.medians.values())
    return (Share(probe.name, card.name, value, peak, usual, probe.unit),)
