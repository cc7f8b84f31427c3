"""What a node tells of itself, from a folder that looks like its /sys and /proc, and from this machine."""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from muster_check.origins import _values
from muster_check.picture import _symbol
from muster_check.ranks import exchange, gate, gather
from muster_check.ranks.binding import BoundRank, device_of, visible_of
from muster_check.ranks.cpulist import cpu_set
from muster_check.ranks.exchange import Clock, MeetingPoint
from muster_check.ranks.fabric import chosen_by
from muster_check.ranks.facts import Rank
from muster_check.ranks.lines import END, LineReader, line_of_place, lines_of
from muster_check.ranks.lookups import _MOST, _backward, look_up, some_of
from muster_check.ranks.smi import read_cards, read_cuda_of_driver, read_nvidia_smi
from muster_check.survey.place import _rules


def _tree(root: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return str(root)


_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_PCI = "sys/bus/pci/devices"
_KFD = "sys/class/kfd/kfd/topology/nodes"
_DRM = "sys/class/drm"
_IB = "sys/class/infiniband"
_NET = "sys/class/net"


def test_the_domains_that_have_cpus_are_told_and_each_core_once(tmp_path: Path) -> None:
    siblings = {
        f"{_CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 10},{cpu % 10 + 10}" for cpu in (0, 9, 10, 19)
    }
    numa = {f"{_NODE}/node0/cpulist": "0-1", f"{_NODE}/node1/cpulist": "", f"{_NODE}/node10/cpulist": "2-3"}
    root = _tree(
        tmp_path, {**siblings, **numa, f"{_NODE}/possible": "0", f"{_CPU}/online": "0-19", f"{_CPU}/cpu20/x": ""}
    )
    cpus = gather.cpus_of(root)
    assert cpus == {"online": "0-19", "numa": {"0": "0-1", "10": "2-3"}, "siblings": ["0,10", "9,19"]}


def test_the_gpus_of_each_maker_are_told_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    root = _tree(
        tmp_path,
        {
            "proc/driver/nvidia/gpus/0000:0A:00.0/information": "Model:  A100\nGPU UUID:  GPU-1",
            f"{_PCI}/0000:0a:00.0/numa_node": "1",
            f"{_PCI}/0000:0a:00.0/local_cpulist": "8-15",
            f"{_PCI}/0000:05:00.0/numa_node": "-1",
            f"{_KFD}/0/properties": "simd_count 0\nlocation_id 0",
            f"{_KFD}/1/properties": "simd_count 440\nlocation_id 49410\ndomain 1\nunique_id 77\nalone",
            f"{_KFD}/1/name": "gfx90a",
            f"{_KFD}/2/properties": "location_id 9",
            f"{_DRM}/card0/device/vendor": "0x8086",
            f"{_DRM}/card0/device/uevent": "PCI_SLOT_NAME=0000:07:00.0",
            f"{_DRM}/renderD128/device/vendor": "0x8086",
            f"{_DRM}/renderD128/device/uevent": "DRIVER=xe\nnothing\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME=0000:05:00.0",
            f"{_DRM}/renderD129/device/vendor": "0x1002",
            f"{_DRM}/renderD129/device/uevent": "PCI_SLOT_NAME=0000:06:00.0",
            f"{_DRM}/renderD130/device/vendor": "0x8086",
            f"{_DRM}/renderD130/device/uevent": "PCI_SLOT_NAME=0000:00:02.0",
            f"{_DRM}/renderD131/device/vendor": "0x8086",
        },
    )
    assert gather.gpus_of(root) == [
        {"bus": "0000:05:00.0", "name": "Intel 8086:0BD5", "uuid": "", "kind": "xpu", "numa": None, "cpus": ""},
        {"bus": "0000:0a:00.0", "name": "A100", "uuid": "GPU-1", "kind": "cuda", "numa": 1, "cpus": "8-15"},
        {"bus": "0001:c1:00.2", "name": "gfx90a", "uuid": "77", "kind": "rocm", "numa": None, "cpus": ""},
    ]


def test_the_cards_are_told_with_the_entries_that_are_roce_v2_over_ipv4(tmp_path: Path) -> None:
    v4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"
    port, quiet = f"{_IB}/mlx5_0/ports/1", f"{_IB}/mlx5_1/ports/1"
    gids = {f"{port}/gids/{index}": gid for index, gid in enumerate((v4, v4, "fe80:0000", v4))}
    types = {
        f"{port}/gid_attrs/types/{index}": kind
        for index, kind in enumerate(("IB/RoCE v1", "RoCE v2", "RoCE v2", "RoCE v2"))
    }
    more = {f"{port}/link_layer": "Ethernet", f"{port}/state": "4: ACTIVE", f"{port}/rate": "200 Gb/sec"}
    idle = {f"{quiet}/link_layer": "InfiniBand", f"{quiet}/gids/0": v4, f"{quiet}/gid_attrs/types/0": "RoCE v2"}
    first, second = gather.devices_of(_tree(tmp_path, {**gids, **types, **more, **idle}))
    assert (first["roce_v2"], first["state"], first["rate"], second["roce_v2"]) == ([1, 3], "ACTIVE", "200 Gb/sec", [])


def test_an_interface_is_up_where_its_flag_and_its_carrier_say_so(tmp_path: Path) -> None:
    root = _tree(
        tmp_path,
        {
            f"{_NET}/bonding_masters": "bond0",
            f"{_NET}/ib0/flags": "0x1003",
            f"{_NET}/ib0/mtu": "4092",
            f"{_NET}/ib0/speed": "100000",
            f"{_NET}/ib1/flags": "0x1002",
            f"{_NET}/ib1/speed": "-1",
            f"{_NET}/ib2/flags": "0x1003",
            f"{_NET}/ib2/carrier": "0",
            f"{_NET}/ib3/carrier": "1",
            "proc/net/if_inet6": "fe800000000000000000000000000001 02 40 20 80      ib0\nfe80 02 40 20 80 ib",
        },
    )
    told = [
        (each["name"], each["up"], each["mtu"], each["speed_mbit"], each["addresses"])
        for each in gather.interfaces_of(root)
    ]
    assert told == [
        ("ib0", True, 4092, 100000, ["fe80::1"]),
        ("ib1", False, 0, None, []),
        ("ib2", False, 0, None, []),
        ("ib3", False, 0, None, []),
    ]


def test_this_machine_s_own_address_is_known() -> None:
    (own,) = [each for each in gather.interfaces_of() if each["name"] == "lo"]
    assert "127.0.0.1" in own["addresses"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for each in gather.interfaces_of():
            if each["name"] != "lo" and each["addresses"] and "." in each["addresses"][0]:
                answer = fcntl.ioctl(asker.fileno(), 0x8915, struct.pack("256s", each["name"].encode()))
                assert socket.inet_ntoa(answer[20:24]) == each["addresses"][0]


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    place = tmp_path / "a b" / "c"
    place.mkdir(parents=True)
    lines = ["rootfs / ext4 rw", f"x {tmp_path}/a\\040b lustre", "short line", "/dev/shm y"]
    root = _tree(tmp_path / "root", {"proc/mounts": "\n".join(lines)})
    mounts = gather._mounts({"HOME": str(tmp_path)}, str(place), root)
    assert (mounts[str(place)], mounts[str(tmp_path)]) == ("lustre", "ext4")
    assert set(gather._mounts({}, str(place), str(tmp_path)).values()) == {""}


@pytest.mark.parametrize(
    ("environment", "routes", "way_out"),
    [
        ({}, "Iface\neth0 00000000 0100000A 0003 0 0 0 00000000 0", True),
        ({}, "Iface\neth0 00000000 0100000A 0003 0 0 0 00FFFFFF 0", False),
        ({}, "Iface\neth0 0000000A 0100000A 0003 0 0 0 00000000 0", False),
        ({}, "eth0 00000000 0100000A 0003 0 0 0 00000000 0", False),
        ({}, "Iface\neth0 00000000", False),
        ({"https_proxy": "http://p"}, "Iface", True),
        ({"HTTPS_PROXY": ""}, "Iface", False),
    ],
)
def test_a_way_out_is_a_default_route_or_a_proxy(
    tmp_path: Path, environment: Mapping[str, str], routes: str, way_out: bool
) -> None:
    assert gather._egress(environment, _tree(tmp_path, {"proc/net/route": routes})) is way_out


def test_old_locks_that_nobody_holds_are_left_over(tmp_path: Path) -> None:
    names = ("torch/a/lock", "torch/b/lock", "torch/new/lock", "torch/c.lock", "torch/lockfile")
    old = time.time() - 3600
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        if "new" not in name:
            os.utime(tmp_path / name, (old, old))
    environment = {"HOME": str(tmp_path / "home"), "TORCH_EXTENSIONS_DIR": str(tmp_path / "torch")}
    with (tmp_path / "torch/b/lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        told = [path for path in gather._leftovers(environment) if path.startswith(str(tmp_path))]
    assert told == [str(tmp_path / "torch/a/lock")]
    assert gather._is_old(str(tmp_path / "torch/a/lock"), os.getuid(), old + 1)
    assert not gather._is_old(str(tmp_path / "torch/a/lock"), os.getuid(), old)
    assert not gather._is_old(str(tmp_path / "torch/a/lock"), os.getuid() + 1, old + 1)
    assert not gather._is_old(str(tmp_path / "gone"), os.getuid(), old + 1)


def test_shared_memory_is_left_over_where_it_is_old_and_no_process_has_it() -> None:
    with (
        tempfile.NamedTemporaryFile(prefix="torch_", dir="/dev/shm") as new,
        tempfile.NamedTemporaryFile(prefix="torch_", dir="/dev/shm") as left,
        tempfile.NamedTemporaryFile(prefix="torch_", dir="/dev/shm") as held,
    ):
        for file in (left, held):
            file.write(b"x")
            file.flush()
            os.utime(file.name, (1, 1))
        with mmap.mmap(held.fileno(), 1):
            told = gather._leftovers({"HOME": "/nowhere"})
    assert left.name in told
    assert not {new.name, held.name} & set(told)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-2,5", {0, 1, 2, 5}),
        ("x-3", set()),
        ("3-x", set()),
        ("0-1048576", set()),
        ("1048575", {1048575}),
        ("", set()),
    ],
)
def test_a_list_of_cpus_is_read_or_is_none(text: str, cpus: set[int]) -> None:
    assert cpu_set(text) == cpus


def test_a_file_that_a_process_has_mapped_is_open() -> None:
    library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line)
    assert gather._is_open(library)
    assert not gather._is_open("/dev/shm/nccl-of-nobody-at-all")


def test_a_library_to_be_preloaded_that_is_not_there_is_told(tmp_path: Path) -> None:
    environment = {"LD_PRELOAD": f"libc.so.6 {sys.executable}:/gone.so", "MUSTER_RUN_DIR": str(tmp_path / "gone")}
    told = gather._shared(environment, str(tmp_path))
    assert told == {
        str(tmp_path): f"{tmp_path.stat().st_ino}",
        str(tmp_path / "gone"): "not there: No such file or directory",
        "LD_PRELOAD": "/gone.so",
    }
    assert list(gather._shared({}, str(tmp_path))) == [str(tmp_path)]


def test_the_secret_of_an_address_is_not_told() -> None:
    told = gather.variables_in_force(
        {"NCCL_NET": "x", "OTHER": "y", "NCCL_URL": "http://a:b@c/d", "OMPI_MCA_ess_x": "z", "LD_PRELOAD": "p"}
    )
    assert told == {"LD_PRELOAD": "p", "NCCL_NET": "x", "NCCL_URL": "http://…@c/d"}


def test_the_c_library_and_the_python_of_a_node_are_told() -> None:
    told = gather._software("/")
    assert (told.get("glibc", ""), told["python"]) == (platform.libc_ver()[1], platform.python_version())


def test_the_packages_that_ranks_agree_on_are_read_where_python_looks_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (
        "a/site-packages/torch-2.9.0", "a/site-packages/nvidia_nccl_cu12-2.27.3", "a/site-packages/other-1.0",
        "b/dist-packages/torch-1.0", "b/dist-packages/nvidia_cuda_runtime_cu12-12.8", "lib/numpy-2.0",
    ):  # fmt: skip
        (tmp_path / f"{place}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / name) for name in ("a/site-packages", "lib", "b/dist-packages")])
    assert gather._packages() == {"torch": "2.9.0", "nccl": "2.27.3", "CUDA of torch": "12.8"}


def test_what_is_left_of_a_file_system_is_told() -> None:
    root = os.statvfs("/")
    (told,) = [space for space in gather._space({}, "/") if space["path"] == "/"]
    assert told["size_mib"] == root.f_blocks * root.f_frsize >> 20
    assert (told["free_files"] is None) is (root.f_files == 0)


# --- names ---


def test_of_a_large_job_a_node_asks_for_the_first_its_own_and_its_neighbours() -> None:
    hosts = [f"n{number}" for number in range(_MOST + 1)]
    assert some_of(hosts[:-1], 3) == hosts[:-1]
    assert some_of(hosts, 16) == ["n0", "n16", *hosts[1:14]]
    assert len(some_of([*hosts, *"abcdef"], 5)) == _MOST


def test_a_name_of_this_machine_is_found_and_one_that_nobody_has_is_not() -> None:
    found, gone = look_up(["localhost", "no-such-host.invalid", "localhost"])
    assert found["addresses"]
    assert found["seconds"] is not None
    assert found["reverse_s"] is not None
    assert (gone["addresses"], gone["reverse_s"]) == ([], None)


def test_an_address_without_a_name_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "::ffff:10.0.0.1": "n1",
        "::ffff:10.0.0.2": "10.0.0.2",
        "::ffff:10.0.0.3": "::ffff:10.0.0.3",
        "fe80::1": "fe80::1",
    }
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _: (names[address[0]], ""))
    assert [_backward(address) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "fe80::1")] == ["n1", "", "", ""]


# --- facts as lines ---


def test_documents_in_pieces_come_whole_and_the_end_is_heard() -> None:
    reader = LineReader()
    lines = [*lines_of(3, {"a": os.urandom(3000).hex()}), *lines_of(4, {"b": 1})]
    assert [reader.take(line) for line in [*lines[1:], "a line of the job", lines[0]]] == [
        *[True] * (len(lines) - 1),
        False,
        True,
    ]
    assert (len(reader.documents), reader.ended, reader.place) == (2, False, None)
    assert reader.take(line_of_place("n1", 23456))
    assert (reader.place, reader.ended) == (("n1", 23456), False)
    assert reader.take(END)
    assert not reader.take("another")
    assert (reader.ended, reader.unreadable) == (True, 0)
    assert reader.take(lines[-1].rpartition(" ")[0] + " AAAA")
    assert reader.unreadable == 1


# --- a rank ---


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_NODELIST": "n[1-4]"}, ["n1", "n2"]),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, ["n1", "n2"]),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "MUSTER_LOCAL_NNODES": "1"}, []),
        ({"SLURM_JOB_NODELIST": "n[1-"}, []),
        ({}, []),
    ],
)
def test_the_hosts_of_a_rank_are_those_of_its_step(environment: Mapping[str, str], hosts: list[str]) -> None:
    assert gate._hosts(environment) == hosts


def test_the_first_rank_of_a_node_tells_of_the_node(tmp_path: Path) -> None:
    environment = {"RANK": "4", "LOCAL_RANK": "0", "SLURMD_NODENAME": "n7", "SLURM_TOPOLOGY_ADDR": "top.s1.n.7"}
    told = gate.rank_facts({**environment, "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}, str(tmp_path))
    assert (told["host"], told["node"]["host"], told["node"]["switches"]) == ("n7", "n7", ["top", "s1"])
    other = gate.rank_facts({**environment, "LOCAL_RANK": "1", "SLURMD_NODENAME": ""}, str(tmp_path))
    assert (other["host"], "node" in other) == (os.uname().nodename, False)


@pytest.mark.parametrize(
    ("fault", "ahead_s"), [("clock:n1:90", 90.0), ("clock:n2:90", 0.0), ("link:n1:90", 0.0), ("", 0.0)]
)
def test_a_clock_is_simulated_on_its_host_alone(fault: str, ahead_s: float) -> None:
    rank = Rank(host="n1")
    assert gate._clock({gate.SIMULATE: fault}, rank).ahead_s == ahead_s
    assert rank.get("simulated", []) == (["clock 90 s"] if ahead_s else [])


def test_what_does_not_answer_in_time_is_said() -> None:
    assert gate._in_thread(lambda: None, 5) is None
    assert gate._in_thread(lambda: "no route", 5) == "no route"
    assert gate._in_thread(lambda: time.sleep(0.3), 0.01) == "no answer within 0 s"


def test_the_names_of_a_rank_s_neighbours_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(gate, "look_up", lambda names: asked.append(list(names)))
    hosts = [f"n{number}" for number in range(30)]
    gate._complete(Rank(host="n20", hosts=hosts, node={"gpus": []}), {"MASTER_ADDR": "n0"})
    gate._complete(Rank(host="elsewhere", hosts=hosts, node={"gpus": []}), {})
    gate._complete(Rank(host="n1", hosts=[], node={"gpus": []}), {})
    gate._complete(Rank(host="n1", hosts=hosts), {})
    assert [names[:3] for names in asked] == [["n0", "n0", "n20"], ["n0", "n1", "n2"], [os.uname().nodename]]


def test_the_tool_of_the_maker_is_asked_and_what_it_says_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in (("nvidia-smi", "echo fine"), ("dmesg", "seq 30 | sed 's/^/NVRM: Xid /'; echo other")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    node: Any = {"gpus": [{"kind": "cuda"}, {"kind": "cuda"}, {"kind": "unheard of"}]}
    gate._ask_smi(node)
    assert node["smi"]["nvidia-smi"] == "fine\n"
    assert node["smi"]["dmesg"].splitlines() == [f"NVRM: Xid {number}" for number in range(11, 31)]
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    gate._ask_smi(node)
    assert node["smi"]["nvidia-smi"] == "failed: broken\n"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho much; exit 3\n")
    gate._ask_smi(node)
    assert node["smi"]["nvidia-smi"] == "much\n"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    gate._ask_smi(node)
    assert node["smi"]["nvidia-smi"] == ""
    (tmp_path / "nvidia-smi").unlink()
    gate._ask_smi(node)
    assert node["smi"]["nvidia-smi"] == "failed: FileNotFoundError"


def test_a_message_of_another_program_is_refused() -> None:
    for length, text in ((exchange._LARGEST + 1, b""), (2, b"[]"), (2, b"xx")):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(exchange._LENGTH.pack(length) + text)
            with pytest.raises(ValueError):  # noqa: PT011  # JSON's own is one
                exchange._receive(ours)


def test_all_have_come_when_the_last_one_has() -> None:
    point = MeetingPoint(0, "job", 2, Clock())
    for number in (1, 2):
        assert not point._all.is_set()
        point._note(Rank(rank=number), {}, waits=False)
    assert point._all.is_set()
    point.conclude(go=False)


# --- devices and interfaces by name ---


@pytest.mark.parametrize(
    ("variables", "devices"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": " 1, 2,"}, ["1", "2"]),
        ({"ROCR_VISIBLE_DEVICES": "4,5"}, ["4", "5"]),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "1,0,7,x"}, ["5", "4"]),
    ],
)
def test_the_devices_that_a_rank_sees(variables: Mapping[str, str], devices: list[str] | None) -> None:
    assert visible_of(variables) == devices


_UUIDS: Any = [{"uuid": "GPU-aa1"}, {"uuid": "GPU-ab2"}]


@pytest.mark.parametrize(
    ("local_rank", "visible", "reach", "device"),
    [
        (1, None, [], 1),
        (1, None, [2, 3], 3),
        (2, None, [2, 3], None),
        (1, "4,5", [], 5),
        (1, "4", [], 4),
        (2, "4,5", [], None),
        (0, "GPU-aa", [], 0),
        (0, "GPU-a", [], None),
        (0, "GPU-x", [], None),
        (0, "MIG-1", [], None),
        (0, "MIG-1", [2], None),
    ],
)
def test_the_gpu_of_a_rank_is_known_by_number(
    local_rank: int, visible: str | None, reach: list[int], device: int | None
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    rank = Rank(local_rank=local_rank, environment=environment, **({"reach": reach} if reach else {}))
    assert device_of(rank, _UUIDS) == device


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("ib", "ib0 ib01"),
        ("=ib0", "ib0"),
        ("^ib0", "eth0 lo"),
        ("^=ib0", "ib01 eth0 lo"),
        ("eth,lo", "eth0 lo"),
        ("", ""),
        ("=ib", ""),
    ],
)
def test_interfaces_are_named_by_prefix_whole_or_all_but(rule: str, names: str) -> None:
    assert chosen_by(rule, ["ib0", "ib01", "eth0", "lo"]) == names.split()


@pytest.mark.parametrize(("count", "rows"), [(4, 4), (5, 1)])
def test_values_of_which_each_rank_has_its_own_are_one_row_where_they_are_many(count: int, rows: int) -> None:
    assert len(_values("A", [{"A": str(number)} for number in range(count)])) == rows
    assert len(_values("A", [*({"A": str(number)} for number in range(count)), {"A": "0"}])) == count


def test_a_core_shows_the_rank_that_alone_has_it() -> None:
    seat = BoundRank(0, 0, frozenset({1}), frozenset({1}), None, None, bound=True)
    assert [_symbol(core, [seat]) for core in (1, 2)] == ["0", "."]
    assert len({_symbol(1, [seat, seat]), _symbol(1, [seat]), _symbol(2, [seat])}) == 3


# --- the tool of a maker ---


def test_of_the_columns_of_cards_each_is_read() -> None:
    text = "00000000:0A:00.0, Enabled, 8, 16, Disabled\nshort, line\n00000000:0B:00.0, [N/A], x, y, [N/A]\n"
    assert [tuple(card) for card in read_cards(text)] == [
        ("00000000:0a:00.0", True, 8, 16, False),
        ("00000000:0b:00.0", False, 0, 0, True),
    ]
    assert read_cuda_of_driver({"nvidia-smi": "CUDA Version   : 12.2\n"}) == "12.2"
    assert read_cuda_of_driver({"nvidia-smi": "CUDA Version   : N/A\n"}) == ""


def test_of_errors_the_uncorrectable_ones_since_the_start_are_counted() -> None:
    rows = ["        {}", "SRAM Correctable      : 5", "SRAM Uncorrectable    : {}", "DRAM Uncorrectable    : N/A", ""]
    counts = "\n            ".join(rows)
    text = (
        "GPU 00000000:03:00.0\n    ECC Errors\n" + counts.format("Volatile", 2) + "\n" + counts.format("Aggregate", 9)
    )
    (health,) = read_nvidia_smi(text)
    assert health.uncorrectable == 2
    assert not any((health.remap_pending, health.remap_failed, health.exclusive, health.slowed_by))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Files older than 30 days are purged.", [30]),
        ("Files older than 0 days are purged.", []),
        ("It is cleaned after a 7-day week. Quota: 9 days.", [7]),
        ("Deleted after 14 days", [14]),
        ("The course is 3 days long.", []),
    ],
)
def test_a_rule_of_deletion_has_a_number_of_days(text: str, days: list[int]) -> None:
    assert [number for _, number in _rules(text)] == days
