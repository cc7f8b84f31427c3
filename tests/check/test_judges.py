"""Each judge finds its fault, names the host, and says nothing of a healthy cluster. Facts in, findings out."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rank.finding import BROKEN, NOTE, WARNING
from muster_check.ranks.facts import Expected, world_of
from muster_check.ranks.table import CHECKS, judge
from muster_check.ranks.variables import ib_patience_s, patience_in_words

from .worlds import Break, broken, env, findings, healthy, node, only

Ranks = list[dict[str, Any]]


class Case(NamedTuple):
    """One fault; what must be said of it, and of whom."""

    fault: str
    change: Break
    what: str
    status: str
    says: str
    hosts: tuple[str, ...] = ()
    nodes: int = 2
    fabric: str = "infiniband"
    also: tuple[str, ...] = ()
    """What follows from it and is named too."""


def of_node(key: str, value: Any) -> Break:
    """node2 tells something else."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        node(ranks)[key] = value

    return change


def old_driver(ranks: Ranks, _expected: dict[str, Any]) -> None:
    node(ranks)["smi"] = {"nvidia-smi": SMI_OLD_DRIVER}
    node(ranks)["software"]["CUDA of torch"] = "13.0.96"


def of_software(name: str, value: str) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        node(ranks)["software"][name] = value

    return change


def of_kernel(kernel: str, **variables: str) -> Break:
    """Both nodes have it, and these variables."""

    def change(ranks: Ranks, expected: dict[str, Any]) -> None:
        for host in ("node1", "node2"):
            node(ranks, host)["software"]["kernel"] = kernel
        env(NCCL_PROTO="^LL128", **variables)(ranks, expected)

    return change


def of_space(path: str, **values: int) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        next(each for each in node(ranks)["space"] if each["path"] == path).update(values)

    return change


def of_limits(**values: int) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        node(ranks)["limits"].update(values)

    return change


def of_interface(**values: Any) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        node(ranks)["interfaces"][1].update(values)

    return change


def of_card(**values: Any) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        node(ranks)["devices"][0].update(values)

    return change


def of_name(name: str, **values: Any) -> Break:
    """What node2 hears when it asks for `name`."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        next(each for each in node(ranks)["names"] if each["name"] == name).update(values)

    return change


def of_links(**values: float) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks:
            if rank["host"] == "node2":
                rank["link"].update(values)

    return change


def across_switches(ranks: Ranks, _expected: dict[str, Any]) -> None:
    for host, switch in (("node1", "s1"), ("node2", "s2"), ("node3", "s1")):
        node(ranks, host)["switches"] = ["top", switch]


def gone(ranks: Ranks, _expected: dict[str, Any]) -> None:
    ranks[:] = [rank for rank in ranks if rank["host"] != "node2"]


def one_gone(ranks: Ranks, _expected: dict[str, Any]) -> None:
    del ranks[5]


def cut(ranks: Ranks, _expected: dict[str, Any]) -> None:
    for rank in ranks:
        if rank["host"] == "node2":
            rank["trouble"] = "No route to host"


def squatter(ranks: Ranks, _expected: dict[str, Any]) -> None:
    ranks[0]["squatter"] = "Address already in use"


def one_gpu(ranks: Ranks, _expected: dict[str, Any]) -> None:
    for rank in ranks[4:6]:
        rank["environment"]["CUDA_VISIBLE_DEVICES"] = "0"


def fewer_gpus(ranks: Ranks, _expected: dict[str, Any]) -> None:
    del node(ranks)["gpus"][3]


def roce(ranks: Ranks, expected: dict[str, Any]) -> None:
    for host, entries in (("node1", [3]), ("node2", [5])):
        for card in node(ranks, host)["devices"]:
            card.update(layer="Ethernet", roce_v2=entries)
    env(NCCL_IB_GID_INDEX="3")(ranks, expected)


def login(**values: Any) -> Break:
    """Login node and compute node differ: node1, the first that is asked, has these."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for host in ("node1", "node2"):
            node(ranks, host)["software"].update(values)

    return change


SMI_ECC = """\
GPU 00000000:03:00.0
    ECC Errors
        Volatile
            DRAM Correctable                  : 0
            DRAM Uncorrectable                : 2
"""
SMI_HOT = """\
GPU 00000000:03:00.0
    Clocks Event Reasons
        SW Power Cap                          : Active
        HW Slowdown                           : Active
            HW Thermal Slowdown               : Active
"""
SMI_PENDING = """\
GPU 00000000:03:00.0
    Remapped Rows
        Correctable Error                     : 0
        Pending                               : Yes
        Remapping Failure Occurred            : No
"""
SMI_USED = """\
GPU 00000000:03:00.0
    Processes
        Process ID                            : 1234
            Type                              : C
            Name                              : python
            Used GPU Memory                   : 70000 MiB
"""
SMI_CARDS = """\
00000000:03:00.0, Enabled, 16, 16, Enabled
"""
SMI_NARROW = """\
00000000:03:00.0, Disabled, 8, 16, Enabled
"""
SMI_WITHOUT_ECC = """\
00000000:03:00.0, [N/A], 16, 16, Disabled
"""
SMI_MPS = """\
GPU 00000000:03:00.0
    Processes
        Process ID                            : 77
            Type                              : C
            Name                              : nvidia-cuda-mps-server
            Used GPU Memory                   : 30 MiB
"""
SMI_OLD_DRIVER = """\
Driver Version                            : 535.104.05
CUDA Version                              : 12.2
"""
PEERS = """\
 \tGPU0\tGPU1\tGPU2\tGPU3\t
 GPU0\tX\tOK\tOK\tOK\t
 GPU1\tOK\tX\tOK\tCNS\t
 GPU2\tOK\tOK\tX\tOK\t
 GPU3\tOK\tCNS\tOK\tX\t

Legend:
  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
"""
XID = "[12.3] NVRM: Xid (PCI:0000:03:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

CASES = (
    # rendezvous
    Case("a host never comes", gone, "meeting", BROKEN, "node2 did not come to rank 0 (node1:23456)", ("node2",)),
    Case("a rank never comes", one_gone, "meeting", BROKEN, "1 of 8 ranks did not report, rank 5 among"),
    Case("a host cannot reach rank 0", cut, "meeting", BROKEN, "No route to host", ("node2",)),
    Case("the port is taken", squatter, "port", BROKEN, "rank 0 cannot listen on port 23456 of node1", ("node1",)),
    Case(
        "a name is not known",
        of_name("node1", addresses=[]),
        "names",
        BROKEN,
        "node2 does not know the name node1",
        ("node2",),
    ),
    Case(
        "the resolver is silent",
        of_name("node1", addresses=[], seconds=None),
        "names",
        BROKEN,
        "resolver does not answer on node2",
        ("node2",),
    ),
    Case(
        "a name leads elsewhere",
        of_name("node1", addresses=["10.9.9.9"]),
        "names",
        BROKEN,
        "node1 has different addresses",
        ("node2",),
    ),
    Case(
        "a name is only local",
        of_name("node2", addresses=["127.0.1.1"]),
        "names",
        BROKEN,
        "knows only a loopback address",
        ("node2",),
    ),
    Case(
        "nobody answers for addresses",
        of_name("node1", reverse=None, reverse_s=None),
        "reverse names",
        BROKEN,
        "not answered for on node2",
        ("node2",),
    ),
    Case(
        "answers for addresses take long",
        of_name("node1", reverse_s=0.9),
        "reverse names",
        WARNING,
        "about 14 s for 8 ranks",
        ("node2",),
    ),
    Case(
        "a clock is 5 s ahead",
        of_links(offset_s=5.0),
        "clocks",
        WARNING,
        "the clock of node2 is 5.0 s ahead",
        ("node2",),
    ),
    Case("a clock is an hour behind", of_links(offset_s=-3600.0), "clocks", BROKEN, "3600.0 s behind", ("node2",)),
    # fabric
    Case(
        "a link carries 1 MB/s",
        of_links(bytes_per_s=1e6),
        "links",
        BROKEN,
        "node1, node2: the way between them carries 1 MB/s",
        ("node1", "node2"),
    ),
    Case(
        "the interface is not there",
        of_node("interfaces", [{"name": "lo", "up": True, "addresses": ["127.0.0.1"], "mtu": 65536}]),
        "interfaces",
        BROKEN,
        "ib0 is not there on node2",
        ("node2",),
    ),
    Case("the interface is down", of_interface(up=False), "interfaces", BROKEN, "is down on node2", ("node2",)),
    Case(
        "the interface has no address",
        of_interface(addresses=[]),
        "interfaces",
        BROKEN,
        "has no address on node2",
        ("node2",),
    ),
    Case("packet sizes differ", of_interface(mtu=1500), "interfaces", WARNING, "the packet size (MTU) of ib0 differs"),
    Case(
        "a card is not active", of_card(state="DOWN"), "RDMA cards", BROKEN, "mlx5_0 is not active on node2", ("node2",)
    ),
    Case(
        "a card is not there", of_node("devices", []), "RDMA cards", BROKEN, "mlx5_0 is not there on node2", ("node2",)
    ),
    Case(
        "the RoCE entry differs", roce, "RoCE address", BROKEN, "NCCL_IB_GID_INDEX=3 is not a RoCE v2 entry", ("node2",)
    ),
    # variables
    Case("NCCL_NET on one node", env(NCCL_NET="IB"), "variables", WARNING, "NCCL_NET=IB on one node", nodes=1),
    Case("a quoted network", env(NCCL_NET='"AWS Libfabric"'), "variables", BROKEN, "the quotes are part of the value"),
    Case(
        "two names for one network",
        env(NCCL_NET="AWS Libfabric", NCCL_NET_PLUGIN="aws-ofi"),
        "variables",
        WARNING,
        "NCCL_NET=AWS Libfabric and NCCL_NET_PLUGIN=aws-ofi are both set",
    ),
    Case("TCP on purpose", env(NCCL_NET="Socket"), "variables", BROKEN, "NCCL is told to use TCP"),
    Case("InfiniBand switched off", env(NCCL_IB_DISABLE="1"), "variables", BROKEN, "NCCL is told to use TCP"),
    Case(
        "a plugin that none loads",
        env(NCCL_NET="AWS Libfabric", NCCL_NET_PLUGIN="none"),
        "variables",
        BROKEN,
        "loads no plugin",
    ),
    Case(
        "libfabric over TCP",
        env(FI_PROVIDER="tcp"),
        "variables",
        BROKEN,
        "libfabric is told to use TCP",
        fabric="slingshot",
    ),
    Case(
        "another fabric's provider",
        env(FI_PROVIDER="efa"),
        "variables",
        BROKEN,
        "is not the provider of slingshot",
        fabric="slingshot",
    ),
    Case(
        "workers that fork under an old kernel",
        of_kernel("4.18.0-305.el8.x86_64"),
        "forked workers",
        WARNING,
        "crashes beside an open Slingshot card under kernel 4.18.0-305.el8.x86_64, on node1, node2",
        ("node1", "node2"),
        fabric="slingshot",
    ),
    Case("LL128 over Slingshot", env(NCCL_PROTO="LL128"), "variables", BROKEN, "wrong sums", fabric="slingshot"),
    Case(
        "a name of an old torch",
        env(NCCL_ASYNC_ERROR_HANDLING="1"),
        "variables",
        WARNING,
        "under another name since 2.2",
    ),
    Case("errors are not handled", env(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), "variables", BROKEN, "wait for ever"),
    Case("a port in the address", env(MASTER_ADDR="node1:29500"), "variables", BROKEN, "holds a port"),
    Case("an address of everybody's", env(MASTER_ADDR="127.0.0.1"), "variables", BROKEN, "every node means itself"),
    Case("a dead link is never given up", env(NCCL_IB_TIMEOUT="100"), "variables", BROKEN, "given up never"),
    Case("a dead link is given up after hours", env(NCCL_IB_TIMEOUT="30"), "variables", WARNING, "after 8.6 h"),
    Case(
        "fewer channels than the least",
        env(NCCL_MIN_NCHANNELS="32", NCCL_MAX_NCHANNELS="4"),
        "variables",
        WARNING,
        "is more than",
    ),
    Case("GPUs kept apart", env(NCCL_P2P_DISABLE="1"), "variables", WARNING, "speak through the host's memory"),
    Case("no GPU-direct", env(NCCL_NET_GDR_LEVEL="0"), "variables", WARNING, "every byte goes through the host"),
    Case("MPI on the same GPUs", env(MPICH_GPU_SUPPORT_ENABLED="1"), "variables", WARNING, "can wait for each other"),
    Case(
        "two filters of devices",
        env(ROCR_VISIBLE_DEVICES="2,3", HIP_VISIBLE_DEVICES="2,3", CUDA_VISIBLE_DEVICES="0,1,2,3"),
        "variables",
        BROKEN,
        "counts among those",
        also=("devices", "binding"),
    ),
    Case("gloo told to use lo", env(GLOO_SOCKET_IFNAME="lo"), "variables", BROKEN, "leads to no other node"),
    Case("Python's library moved", env(PYTHONHOME="/opt/other"), "variables", WARNING, "PYTHONHOME=/opt/other"),
    Case("a heartbeat of seconds", env(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="10"), "variables", WARNING, "is ended"),
    Case(
        "a variable on one host alone",
        only(env(NCCL_ALGO="Ring")),
        "variables that differ",
        WARNING,
        "NCCL_ALGO is not the same on all ranks",
        ("node2",),
    ),
    Case(
        "an address on one host alone",
        only(env(MASTER_ADDR="node9")),
        "variables that differ",
        BROKEN,
        "MASTER_ADDR is not the same",
        ("node2",),
    ),
    Case(
        "a preloaded library is missing",
        of_node("shared", {"/home/ada/project": "4711", "LD_PRELOAD": "/opt/gone.so"}),
        "variables",
        WARNING,
        "LD_PRELOAD names /opt/gone.so",
        ("node2",),
    ),
    # devices
    Case("ranks on one GPU", one_gpu, "devices", BROKEN, "ranks 4 and 5 on node2 use the same GPU (0)", ("node2",)),
    Case("more ranks than visible GPUs", env(CUDA_VISIBLE_DEVICES="0,1"), "devices", BROKEN, "sees 2 GPUs (0,1)"),
    Case("no GPU is visible", env(CUDA_VISIBLE_DEVICES=""), "devices", BROKEN, "sees no GPU"),
    Case("a GPU is missing", fewer_gpus, "devices", BROKEN, "node2: the driver shows 3 of 4 GPUs", ("node2",)),
    Case("MIG", of_node("smi", {"cards": SMI_CARDS}), "GPU health", NOTE, "is divided by MIG", ("node2",)),
    Case("half the lanes", of_node("smi", {"cards": SMI_NARROW}), "GPU health", WARNING, "8 of 16 PCIe", ("node2",)),
    Case("no ECC", of_node("smi", {"cards": SMI_WITHOUT_ECC}), "GPU health", NOTE, "ECC is switched off", ("node2",)),
    Case("MPS", of_node("smi", {"nvidia-smi": SMI_MPS}), "GPU health", NOTE, "MPS server", ("node2",)),
    Case("an old driver", old_driver, "GPU health", BROKEN, "the driver serves CUDA 12.2 at most", ("node2",)),
    Case(
        "memory errors",
        of_node("smi", {"nvidia-smi": SMI_ECC}),
        "GPU health",
        BROKEN,
        "2 uncorrectable memory errors",
        ("node2",),
    ),
    Case("a hot GPU", of_node("smi", {"nvidia-smi": SMI_HOT}), "GPU health", BROKEN, "HW Thermal Slowdown", ("node2",)),
    Case(
        "a row waits",
        of_node("smi", {"nvidia-smi": SMI_PENDING}),
        "GPU health",
        WARNING,
        "waits for a reset",
        ("node2",),
    ),
    Case(
        "somebody's process",
        of_node("smi", {"nvidia-smi": SMI_USED}),
        "GPU health",
        WARNING,
        "process 1234 (python) holds 70000 MiB",
        ("node2",),
    ),
    Case(
        "an Xid", of_node("smi", {"dmesg": XID}), "GPU health", BROKEN, "Xid 79, it has fallen off the bus", ("node2",)
    ),
    Case(
        "nvidia-smi hangs",
        of_node("smi", {"nvidia-smi": "failed: TimeoutExpired"}),
        "GPU health",
        WARNING,
        "does not answer",
        ("node2",),
    ),
    Case(
        "a pair of GPUs that is apart",
        of_node("smi", {"peers": PEERS}),
        "peer access",
        WARNING,
        "GPUs 1 and 3 of node2 do not reach each other's memory (CNS)",
        ("node2",),
    ),
    # versions
    Case("drivers differ", of_software("NVIDIA driver", "535.1"), "versions", BROKEN, "NVIDIA driver differs"),
    Case(
        "torch differs",
        of_software("torch", "2.9.0"),
        "versions",
        BROKEN,
        "torch differs: 2.13.0 on node1; 2.9.0 on node2",
    ),
    Case("NCCL differs", of_software("nccl", "2.20.5"), "versions", BROKEN, "nccl differs"),
    Case("Python differs", of_software("python", "3.9.1"), "versions", WARNING, "python differs"),
    Case(
        "ranks across switches",
        across_switches,
        "rank order",
        WARNING,
        "node3 stands under s1 with node1",
        ("node3",),
        3,
    ),
    Case(
        "a slow shared file system",
        of_node("import_s", {"/home/ada/venv/lib/python3.11/site-packages": 0.0025}),
        "import time",
        WARNING,
        "takes 2.5 ms on node2: import torch, which looks 20000 times, about 50 s",
        ("node2",),
    ),
    # start
    Case("/tmp is full", of_space("/tmp", free_mib=0), "space", BROKEN, "/tmp on node2 has room for 0 MiB", ("node2",)),
    Case(
        "/dev/shm is nearly full",
        of_space("/dev/shm", free_mib=100),
        "space",
        WARNING,
        "/dev/shm on node2 has room for 100 MiB",
        ("node2",),
    ),
    Case("no more files", of_space("/tmp", free_files=3), "space", WARNING, "has room for 3 files", ("node2",)),
    Case("few open files", of_limits(nofile=128), "limits", BROKEN, "may open 128 files", ("node2",)),
    Case("no locked memory", of_limits(memlock=65536), "limits", BROKEN, "may lock 64 KiB", ("node2",)),
    Case("few processes", of_limits(nproc=64), "limits", WARNING, "may have 64 processes", ("node2",)),
    Case("a lock is left", of_node("leftovers", ["/tmp/lock"]), "leftovers", WARNING, "/tmp/lock on node2", ("node2",)),
    Case(
        "another directory",
        of_node("shared", {"/home/ada/project": "12"}),
        "shared directory",
        BROKEN,
        "is another directory on node2",
        ("node2",),
    ),
    Case(
        "no directory",
        of_node("shared", {"/home/ada/project": "not there: No such file or directory"}),
        "shared directory",
        BROKEN,
        "is not there on node2",
        ("node2",),
    ),
    # the login node
    Case(
        "another machine",
        login(machine="aarch64"),
        "login against compute",
        BROKEN,
        "the login node is x86_64, the compute nodes are aarch64",
    ),
    Case(
        "an older glibc", login(glibc="2.28"), "login against compute", WARNING, "glibc is 2.34 here and 2.28 on node1"
    ),
    Case(
        "another torch",
        login(torch="2.9.0"),
        "login against compute",
        WARNING,
        "torch is 2.13.0 here and 2.9.0 in the job",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.replace(" ", "-"))
def test_a_fault_is_named(case: Case) -> None:
    found = findings(case.change, nodes=case.nodes, fabric=case.fabric)
    named = [each for each in found if each.what == case.what and case.says in each.evidence]
    assert named, found
    assert named[0].status == case.status
    if case.hosts:
        assert set(named[0].hosts) == set(case.hosts), named[0]
    # Nothing worse is said of anything else: the first cause is what a person acts on.
    others = [each for each in found if each.status == BROKEN and each.what not in {case.what, *case.also}]
    assert case.status != BROKEN or not others, others
    assert named[0].remedy


def test_all_that_is_said_of_each_fault(golden: Callable[[Path, str], None]) -> None:
    lines = []
    for case in CASES:
        found = findings(case.change, nodes=case.nodes, fabric=case.fabric)
        told = [f"{each.status}: {each.what} {each.hosts}: {each.evidence} → {each.remedy}" for each in found]
        lines.append(f"{case.fault} | {' | '.join(told)}")
    golden(Path(__file__).parent.parent / "golden/judged.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("kernel", "warned"),
    [
        ("5.3.18-150300.59.87-default", True),
        ("5.14.21-150400.24.81-default", False),
        ("4.18.0-348.23.1.el8_5.x86_64", True),
        ("4.18.0-372.9.1.el8.x86_64", False),
        ("4.18.0-553.el8_10.x86_64", False),
        ("6.4.0", False),
        ("", False),
    ],
)
def test_only_an_old_kernel_forbids_workers_to_fork(kernel: str, *, warned: bool) -> None:
    def said(change: Break, fabric: str) -> bool:
        return any(each.what == "forked workers" for each in findings(change, fabric=fabric))

    assert said(of_kernel(kernel), "slingshot") == warned
    assert not said(of_kernel(kernel), "infiniband")
    assert not said(of_kernel(kernel, CXI_FORK_SAFE="1"), "slingshot")


@pytest.mark.parametrize(("variable", "origins"), [(None, ["the site's profile"]), ("ib9", ["NCCL_SOCKET_IFNAME=ib9"])])
def test_an_interface_that_two_name_is_told_of_once(variable: str | None, origins: list[str]) -> None:
    def change(ranks: Ranks, expected: dict[str, Any]) -> None:
        expected["interfaces"] = ["ib9"]
        for rank in ranks:
            rank["environment"].pop("NCCL_SOCKET_IFNAME", None)
        if variable:
            env(NCCL_SOCKET_IFNAME=variable)(ranks, expected)

    told = [each.evidence for each in findings(change) if each.what == "interfaces"]
    assert told == [f"{origin}: ib9 is not there on node1, node2" for origin in origins]


@pytest.mark.parametrize("nodes", [1, 2, 3, 16])
@pytest.mark.parametrize("per_node", [1, 2, 4])
@pytest.mark.parametrize("fabric", ["infiniband", "slingshot", "efa", "ethernet", ""])
def test_nothing_is_said_of_a_healthy_cluster(nodes: int, per_node: int, fabric: str) -> None:
    def quiet(ranks: Ranks, _expected: dict[str, Any]) -> None:
        if fabric == "slingshot":  # what the profile sets there
            env(NCCL_PROTO="^LL128")(ranks, {})

    found = findings(quiet, nodes=nodes, per_node=per_node, fabric=fabric)
    assert [each for each in found if each.status != NOTE] == []


def test_every_check_of_the_table_has_a_fault_here() -> None:
    elsewhere = {"binding", "threads", "strangers"}
    assert {check.name for check in CHECKS} - elsewhere == {case.what for case in CASES}


@pytest.mark.parametrize(
    ("saw", "closed", "address", "said"),
    [
        ("joined", False, "192.0.2.9", (NOTE, "reached rank 0 at node1:2 from login1: there any user can join")),
        ("joined", True, "192.0.2.9", (BROKEN, "reached the closed store of the ranks at node1:2 from login1")),
        ("refused", True, "192.0.2.9", (NOTE, "was refused at node1:2 from login1")),
        ("refused", False, "192.0.2.9", None),
        ("unreachable", False, "", (NOTE, "could not reach rank 0 at node1:2 from login1")),
        ("unknown", False, "", None),
        ("joined", True, "127.0.0.1", None),
    ],
)
def test_a_strangers_try_is_said_unless_the_stranger_is_of_the_job(
    saw: str, *, closed: bool, address: str, said: tuple[str, str] | None
) -> None:
    ranks, login_node, expected = healthy()
    for host in ("login1", "node1"):
        login_node["stranger"] = {"host": host, "address": address, "place": "node1:2", "saw": saw}
        found = [
            each
            for each in judge(world_of(ranks, login_node, msgspec.convert({**expected, "closed": closed}, Expected)))
            if each.what == "strangers"
        ]
        assert [each.status for each in found] == ([said[0]] if said and host == "login1" else [])
        assert all(said is not None and said[1] in each.evidence for each in found)


def test_many_allocations_of_whole_groups_are_right_and_others_are_named() -> None:
    chance, split = random.Random(34), 0  # noqa: S311
    for _ in range(100):
        size, per_block = chance.choice([1, 2, 3]), chance.randint(1, 3)
        blocks = [f"b{number // (per_block * size)}" for number in range(size * chance.randint(1, 8))]
        kept = list(blocks)
        if chance.random() < 0.5:
            chance.shuffle(blocks)

        def place(ranks: Ranks, expected: dict[str, Any], blocks: list[str] = blocks, size: int = size) -> None:
            expected["segment"] = size
            for number, block in enumerate(blocks, start=1):
                node(ranks, f"node{number}")["switches"] = [block]

        found = [each for each in findings(place, nodes=len(blocks), per_node=1) if each.what == "rank order"]
        apart = sum(len(set(blocks[at : at + size])) > 1 for at in range(0, len(blocks), size))
        runs = sum(1 for before, after in zip(blocks, blocks[1:]) if before != after) + 1
        assert len(found) == apart + (runs > len(set(blocks))), (blocks, size, found)
        assert found == [] or blocks != kept
        split += bool(apart)
    assert 5 < split < 50


def test_nodes_that_slurm_does_not_place_are_not_judged() -> None:
    def some(ranks: Ranks, expected: dict[str, Any]) -> None:
        across_switches(ranks, expected)
        del node(ranks, "node2")["switches"]

    assert [each for each in findings(some, nodes=3) if each.what == "rank order"] == []


@given(st.permutations(range(8)))
def test_the_order_in_which_ranks_tell_is_of_no_matter(order: list[int]) -> None:
    def shuffled(ranks: Ranks, expected: dict[str, Any]) -> None:
        of_links(offset_s=5.0)(ranks, expected)
        one_gpu(ranks, expected)
        ranks[:] = [ranks[index] for index in order]

    def straight(ranks: Ranks, expected: dict[str, Any]) -> None:
        of_links(offset_s=5.0)(ranks, expected)
        one_gpu(ranks, expected)

    assert findings(shuffled) == findings(straight)


@given(st.sampled_from(["cpus", "gpus", "devices", "interfaces", "software", "space", "limits", "names", "shared"]))
def test_what_a_node_could_not_tell_is_not_judged(key: str) -> None:
    def untold(ranks: Ranks, expected: dict[str, Any]) -> None:
        for rank in ranks:
            rank.get("node", {}).pop(key, None)

    assert [each for each in findings(untold) if each.status == BROKEN and key != "devices"] == []


def test_the_worst_comes_first_and_nothing_twice() -> None:
    def several(ranks: Ranks, expected: dict[str, Any]) -> None:
        env(NCCL_ALGO="Ring", NCCL_P2P_DISABLE="1", NCCL_NET="Socket")(ranks, expected)
        of_limits(nproc=64)(ranks, expected)

    found = findings(several)
    assert [each.status for each in found] == sorted(
        (each.status for each in found), key=["broken", "warning", "note"].index
    )
    assert len(found) == len(set(found))


def test_the_gate_leaves_out_what_only_compares_with_the_login_node() -> None:
    assert judge(broken(login(machine="aarch64")), quick=True) == []


@pytest.mark.parametrize(
    ("exponent", "words"),
    [(20, "after 30 s"), (22, "after 2.0 min"), (30, "after 8.6 h"), (100, "never"), (0, "never")],
)
def test_the_patience_of_a_card_is_said_as_a_time(exponent: int, words: str) -> None:
    assert patience_in_words(ib_patience_s(exponent)) == words


def test_one_slow_host_among_many_is_named_alone() -> None:
    def slow(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks:
            if rank["host"] == "node7":
                rank["link"]["bytes_per_s"] = 2e6

    (found,) = findings(slow, nodes=16)
    assert found.what == "links"
    assert found.hosts == ("node7",)


def test_where_rank_0_itself_is_slow_it_is_named() -> None:
    def slow(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks[1:]:
            rank["link"]["bytes_per_s"] = 2e6

    (found,) = findings(slow, nodes=16)
    assert found.hosts == ("node1",)


def test_where_rank_0s_clock_is_wrong_it_is_named() -> None:
    def wrong(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks[1:]:
            if rank["host"] != "node1":
                rank["link"]["offset_s"] = 90.0

    (found,) = findings(wrong, nodes=4)
    assert found.hosts == ("node1",)
    assert "90.0 s behind" in found.evidence


def test_a_healthy_world_is_healthy_for_every_size_of_job() -> None:
    ranks, _, _ = healthy(nodes=3)
    assert len(ranks) == 12


@pytest.mark.parametrize(("nodes", "value", "is_found"), [(2, "lo", True), (2, "=lo", True), (1, "lo", False)])
def test_the_loopback_is_an_interface_for_the_ranks_of_one_node(nodes: int, value: str, is_found: bool) -> None:
    messages = [each.evidence for each in findings(env(GLOO_SOCKET_IFNAME=value), nodes=nodes)]

    assert any("leads to no other node" in message for message in messages) is is_found


@pytest.mark.parametrize(
    "values",
    [
        {"NCCL_NET": "AWS Libfabric"},
        {"NCCL_NET_PLUGIN": "aws-ofi"},
        {"NCCL_NET": "AWS Libfabric", "NCCL_NET_PLUGIN": "none"},
    ],
)
def test_one_name_of_a_network_alone_contradicts_nothing(values: dict[str, str]) -> None:
    assert not [each for each in findings(env(**values)) if "are both set" in each.evidence]
