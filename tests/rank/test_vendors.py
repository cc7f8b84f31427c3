"""The table of GPU vendors: each row is whole, both sides read the same, and Intel's GPUs are chosen in a rank."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from launch.shells import SHELLS
from muster.look.probe import _count_gpus
from muster.rank import devices, join
from muster.rank.devices import Torch, choose_backend
from muster.rank.errors import WireupError
from muster.rank.roster import Seat
from muster.rank.vendors import KINDS, VENDORS, VISIBLE, Vendor, kind_of_version, vendor_here, vendor_of
from muster.render.parts import compose
from muster.runner import run
from muster_check.ranks.binding import visible_of
from muster_check.ranks.gather import gpus_of
from muster_check.ranks.smi import read_xpu_smi

XPU = vendor_of("xpu")
assert XPU is not None
FOUR = Torch("2.9.0+xpu", "Intel XPU 20250101", 4, collectives=True, vendor=XPU)


def signed(root: Path, vendor: Vendor) -> None:
    """Put a file of the vendor's driver below `root`."""
    path = root / vendor.signs[-1].lstrip("/").replace("????:0[!0]:*", "0000:0b:00.0")
    path.parent.mkdir(parents=True)
    path.touch()


@pytest.mark.parametrize("vendor", VENDORS, ids=KINDS)
def test_sh_and_python_know_a_vendor_by_the_same_files(tmp_path: Path, vendor: Vendor) -> None:
    assert vendor_here(str(tmp_path)) is None
    signed(tmp_path, vendor)
    text = compose(("gpu_kind",)).replace(" /dev/", f" {tmp_path}/dev/").replace(" /sys/", f" {tmp_path}/sys/")

    assert vendor_here(str(tmp_path)) == vendor
    for shell in SHELLS:
        told = run([*shell, "-c", f'{text}\nmuster_gpu_kind\necho "$muster_kind"'])
        assert told.stdout == f"{vendor.kind}\n", shell


def test_the_graphics_of_a_processor_are_no_gpus_for_training(tmp_path: Path) -> None:
    assert XPU is not None
    (tmp_path / "sys/bus/pci/drivers/i915/0000:00:02.0").mkdir(parents=True)
    assert vendor_here(str(tmp_path)) is None


@pytest.mark.parametrize("vendor", VENDORS, ids=KINDS)
def test_a_torch_is_for_the_vendor_whose_version_it_has(vendor: Vendor) -> None:
    versions = {each.torch_version: None for each in VENDORS}
    assert kind_of_version(versions) is None
    assert kind_of_version({**versions, vendor.torch_version: "1"}) == vendor.kind


def test_xccl_on_intels_gpus() -> None:
    assert choose_backend(None, {"MUSTER_GPUS": "4"}, FOUR) == ("xccl", "xpu", None)
    assert choose_backend("xccl", {}, FOUR) == ("xccl", "xpu", None)
    instead = choose_backend("nccl", {}, FOUR)
    assert instead[:2] == ("xccl", "xpu")
    assert instead.notice == "this torch is built for Intel XPU: xccl takes the place of nccl"
    assert choose_backend(None, {"ZE_AFFINITY_MASK": ""}, FOUR)[:2] == ("gloo", "cpu"), "an empty mask hides all"
    with pytest.raises(WireupError, match="has no oneCCL"):
        choose_backend(None, {}, FOUR._replace(collectives=False))
    with pytest.raises(WireupError, match="sees none on this host") as refused:
        choose_backend(None, {"MUSTER_GPUS": "4"}, FOUR._replace(gpus=0))
    assert "xpu-smi" in (refused.value.hint or "")


class FakeXpu(types.ModuleType):
    """torch.xpu with two devices, that remembers which one was made the current one."""

    def __init__(self) -> None:
        super().__init__("torch.xpu")
        self.chosen: list[Any] = []

    def device_count(self) -> int:
        return 2

    def set_device(self, device: Any) -> None:
        self.chosen.append(device)

    def get_device_properties(self, device: Any) -> Any:
        return types.SimpleNamespace(uuid=f"uuid-{device.index}")


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> FakeXpu:
    """A torch that is built for Intel's GPUs, in the place of the real one."""
    torch, xpu = types.ModuleType("torch"), FakeXpu()
    parts = {
        "__version__": "2.9.0+xpu",
        "version": types.SimpleNamespace(cuda=None, hip=None, xpu="20250101"),
        "xpu": xpu,
        "distributed": types.SimpleNamespace(is_xccl_available=lambda: True),
        "device": lambda kind, index=None: types.SimpleNamespace(type=kind, index=index),
    }
    for name, value in parts.items():
        setattr(torch, name, value)
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    return xpu


def test_a_rank_takes_its_own_intel_gpu(fake_torch: FakeXpu) -> None:
    found = devices.this_torch()
    assert found[:4] == ("2.9.0+xpu", "Intel XPU 20250101", 2, True)
    assert found.vendor == XPU

    chosen = choose_backend(None, {"MUSTER_GPUS": "2"}, found)
    seat = Seat(rank=3, host="node2", pid=1, started=0, node_rank=1, local_rank=1, local_size=2)
    device = join._device(chosen, seat, found.gpus)
    assert (device.type, device.index) == ("xpu", 1)
    assert fake_torch.chosen == [device]
    assert devices.name_of(device) == "uuid-1"


def drm(root: Path, number: int, bus: str, vendor: str = "0x8086") -> None:
    """Lay down what the kernel shows of a graphics device."""
    device = root / "sys/devices" / bus
    device.mkdir(parents=True)
    (device / "vendor").write_text(vendor + "\n")
    (device / "uevent").write_text(f"DRIVER=xe\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME={bus}\n")
    node = root / f"sys/class/drm/renderD{number}"
    node.mkdir(parents=True)
    (node / "device").symlink_to(device)


def test_a_nodes_intel_gpus_are_its_cards(tmp_path: Path) -> None:
    drm(tmp_path, 128, "0000:00:02.0")  # of the processor
    drm(tmp_path, 129, "0000:9a:00.0")
    drm(tmp_path, 130, "0000:18:00.0")
    drm(tmp_path, 131, "0000:19:00.0", vendor="0x1a03")  # of the board
    assert [(gpu["bus"], gpu["kind"], gpu["name"]) for gpu in gpus_of(str(tmp_path))] == [
        ("0000:18:00.0", "xpu", "Intel 8086:0BD5"),
        ("0000:9a:00.0", "xpu", "Intel 8086:0BD5"),
    ]
    (tmp_path / "dev").mkdir()
    for name, count in (("nvidiactl", 2), ("ttyUSB7", 2), ("nvidia0", 1), ("nvidia1", 2), ("nvidia10", 3)):
        (tmp_path / "dev" / name).touch()
        assert _count_gpus(tmp_path / "dev", tmp_path / "kfd", tmp_path / "sys/class/drm") == count


# As `xpu-smi health -l -j` of intel/xpumanager writes it (cli/src/comlet_health.cpp at 055e0792).
HEALTH = """{"device_list": [
 {"device_id": 0, "core_temperature": {"status": "Ok", "description": "All temperature sensors are healthy."},
  "memory": {"status": "Ok", "description": "The memory health is ok."}},
 {"device_id": 1, "core_temperature": {"status": "Ok", "description": ""},
  "memory": {"status": "Critical", "description": "The memory must be replaced."}}]}"""


def test_what_xpu_smi_calls_critical_is_told_with_its_words() -> None:
    assert [(health.place, health.troubles) for health in read_xpu_smi(HEALTH)] == [
        ("0", ()),
        ("1", ("its memory is critical: The memory must be replaced.",)),
    ]
    assert read_xpu_smi("") == read_xpu_smi("Error: no device") == read_xpu_smi("[]") == []


@pytest.mark.torch
@pytest.mark.parametrize("mask", ["0,1,2", "3", "2,0", ""])
def test_a_mask_is_read_as_torch_reads_it(monkeypatch: pytest.MonkeyPatch, mask: str) -> None:
    xpu = pytest.importorskip("torch.xpu")
    if not hasattr(xpu, "_parse_visible_devices"):
        pytest.skip("this torch does not read the mask by itself")
    monkeypatch.setenv("ZE_AFFINITY_MASK", mask)
    assert [int(each) for each in visible_of({"ZE_AFFINITY_MASK": mask}) or []] == xpu._parse_visible_devices()


def test_every_name_that_hides_gpus_is_one_vendors() -> None:
    assert len(set(VISIBLE)) == len(VISIBLE)
    assert len(set(KINDS)) == len(KINDS)
