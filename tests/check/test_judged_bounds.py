"""Each limit of a judge at its last harmless value and at the first that is reported, and each exception of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from muster_check.ranks.facts import world_of
from muster_check.ranks.table import judge

from .test_judges import (
    Ranks,
    of_interface,
    of_kernel,
    of_limits,
    of_links,
    of_name,
    of_node,
    of_software,
    of_space,
    roce,
)
from .worlds import Break, env, findings, healthy, node

_NO_PEERS = """\
 \tGPU0\tGPU1\tGPU2\tGPU3\t
 GPU0\tX\tNS\tNS\tNS\t
 GPU1\tNS\tX\tNS\tNS\t
 GPU2\tNS\tNS\tX\tNS\t
 GPU3\tNS\tNS\tNS\tX\t
"""
_TCP_ON_CXI = "is not the provider of slingshot"


def _all(*changes: Break) -> Break:
    def change(ranks: Ranks, expected: dict[str, Any]) -> None:
        for each in changes:
            each(ranks, expected)

    return change


def _of_cards(**values: Any) -> Break:
    """Both nodes' cards have these."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for host in ("node1", "node2"):
            for card in node(ranks, host)["devices"]:
                card.update(values)

    return change


def _of_all_software(**values: str) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks:
            if "node" in rank:
                rank["node"]["software"].update(values)

    return change


def _of_all_nodes(key: str, value: Any) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks:
            if "node" in rank:
                rank["node"][key] = value

    return change


def _old_driver(wanted: str) -> Break:
    answer = {"nvidia-smi": "Driver Version : 535.104.05\nCUDA Version                              : 12.2\n"}
    return _all(of_node("smi", answer), of_software("CUDA of torch", wanted))


def _masks(*masks: str) -> Break:
    """The ranks of node2 may run on these CPUs, and use no GPU that is near one."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank, mask in zip((rank for rank in ranks if rank["host"] == "node2"), masks):
            rank["mask"] = mask
            rank["environment"]["OMP_NUM_THREADS"] = "1"
        for gpu in node(ranks)["gpus"]:
            gpu["numa"] = None

    return change


def _speeds(*speeds: float) -> Break:
    """Rank 0 measured these ways to node2, node3 and so on."""

    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for rank in ranks[4:]:
            rank["link"]["bytes_per_s"] = speeds[int(rank["host"][4:]) - 2]

    return change


def _unresolved_own_name(ranks: Ranks, _expected: dict[str, Any]) -> None:
    """node2 cannot come, as it does not know rank 0's name."""
    of_name("node1", addresses=[])(ranks, {})
    for rank in ranks[4:]:
        rank["trouble"] = "Name or service not known"


def _of_all_shared(told: str) -> Break:
    def change(ranks: Ranks, _expected: dict[str, Any]) -> None:
        for host in ("node1", "node2"):
            node(ranks, host)["shared"] = {"/w": told}

    return change


def _also_far(ranks: Ranks, _expected: dict[str, Any]) -> None:
    for rank, mask in zip(ranks[4:], ("8-11", "12-15", "4-7", "0-3")):
        rank["mask"] = mask
    for gpu in node(ranks)["gpus"][2:]:
        gpu["numa"] = None


def _eight_gpus(_ranks: Ranks, expected: dict[str, Any]) -> None:
    expected["gpu_numa"] = [1] * 8


def _one_card_more(ranks: Ranks, _expected: dict[str, Any]) -> None:
    node(ranks)["devices"].append({**node(ranks)["devices"][0], "name": "mlx5_7"})


def _without_rank_0(ranks: Ranks, _expected: dict[str, Any]) -> None:
    del ranks[:4]


def _also_a_rank_gone(ranks: Ranks, _expected: dict[str, Any]) -> None:
    for rank in ranks[4:]:
        rank["trouble"] = "No route to host"
    del ranks[2]


@pytest.mark.parametrize(
    ("change", "what", "says", "shape"),
    [
        # limits of a process
        (of_limits(nofile=1024), "limits", "", {}),
        (of_limits(nofile=1023), "limits", "WARNING a process may open 1023 files", {}),
        (of_limits(nofile=256), "limits", "WARNING a process may open 256", {}),
        (of_limits(nofile=255), "limits", "BROKEN a process may open 255", {}),
        (of_limits(memlock=16 << 20), "limits", "", {}),
        (of_limits(memlock=(16 << 20) - 1), "limits", "BROKEN a process may lock 16383 KiB", {}),
        (_all(of_limits(memlock=65536), of_node("devices", [])), "limits", "", {}),
        (of_limits(nproc=1024), "limits", "", {}),
        (of_limits(nproc=1023), "limits", "WARNING a user may have 1023 processes", {}),
        (of_limits(stack=1 << 20), "limits", "", {}),
        (of_limits(stack=(1 << 20) - 1), "limits", "WARNING a thread's stack is 1023 KiB", {}),
        (of_limits(**{"as": 64 << 30}), "limits", "", {}),
        (of_limits(**{"as": (64 << 30) - 1}), "limits", "WARNING a process may address 65535 MiB", {}),
        # room
        (of_space("/tmp", free_mib=64), "space", "", {}),
        (of_space("/tmp", free_mib=63), "space", "WARNING /tmp on node2 has room for 63 MiB", {}),
        (of_space("/tmp", free_mib=16), "space", "WARNING /tmp", {}),
        (of_space("/tmp", free_mib=15), "space", "BROKEN /tmp", {}),
        (of_space("/tmp", free_mib=15, size_mib=0), "space", "", {}),
        (of_space("/tmp", free_files=1000), "space", "", {}),
        (of_space("/tmp", free_files=999), "space", "WARNING /tmp on node2 has room for 999 files", {}),
        # one look at a file: 20 000 looks in 30 s
        (of_node("import_s", {"/opt": 0.0015}), "import time", "", {}),
        (of_node("import_s", {"/opt": 0.00155}), "import time", "WARNING a look at a file in /opt", {}),
        # names, addresses, clocks
        (of_name("node1", addresses=[], seconds=0.9), "names", "BROKEN node2 does not know the name node1", {}),
        (of_name("node1", addresses=[], seconds=1.0), "names", "BROKEN the resolver does not answer on node2", {}),
        (of_name("node1", seconds=1.0), "names", "", {}),
        (of_name("node1", addresses=["10.0.0.1", "10.9.9.9"]), "names", "", {}),
        (of_name("node1", addresses=["10.9.9.9", "10.0.0.1"]), "names", "", {}),
        (of_name("node1", seconds=None, reverse_s=None), "reverse names", "", {}),
        (of_name("node1", addresses=[], reverse_s=None), "reverse names", "", {}),
        (of_name("node1", reverse_s=0.3125), "reverse names", "", {}),
        (of_name("node1", reverse_s=0.32), "reverse names", "WARNING the name of an address takes 0.32 s", {}),
        (of_name("node1", reverse_s=0.05), "reverse names", "", {"nodes": 16}),
        (of_name("node1", reverse_s=0.06), "reverse names", "WARNING the name of an address takes", {"nodes": 16}),
        (of_links(offset_s=1.5, round_trip_s=0.5), "clocks", "", {}),
        (of_links(offset_s=1.5, round_trip_s=0.4), "clocks", "WARNING the clock of node2 is 1.5 s ahead", {}),
        (of_links(offset_s=60.0), "clocks", "WARNING the clock of node2", {}),
        (of_links(offset_s=60.5), "clocks", "BROKEN the clock of node2", {}),
        (_unresolved_own_name, "meeting", "", {}),
        (_also_a_rank_gone, "meeting", "BROKEN node2 cannot reach rank 0", {}),
        # links: below 15 MB/s always; below 100 MB/s only where the others carry four times as much
        (_speeds(15e6), "links", "", {}),
        (_speeds(14.9e6), "links", "BROKEN node1, node2: the way between them carries 14.9 MB/s", {}),
        (_speeds(99e6, 400e6, 400e6), "links", "BROKEN node2: the way to node1 carries 99 MB/s", {"nodes": 4}),
        (_speeds(99e6, 396e6, 396e6), "links", "", {"nodes": 4}),
        (_speeds(100e6, 500e6, 500e6), "links", "", {"nodes": 4}),
        # GPUs
        (_old_driver("12.9"), "GPU health", "", {}),
        (_old_driver(""), "GPU health", "", {}),
        (_old_driver("13.0"), "GPU health", "BROKEN torch is built for CUDA 13.0", {}),
        (of_node("smi", {"dmesg": "failed: Operation not permitted"}), "GPU health", "", {}),
        (_all(of_node("smi", {"nvidia-smi": "failed: no"}), of_node("gpus", [])), "GPU health", "", {}),
        (of_node("smi", {"peers": _NO_PEERS}), "peer access", "", {}),
        (of_node("smi", {"peers": _NO_PEERS.replace("NS\t\n GPU1", "OK\t\n GPU1")}), "peer access", "WARNING GPUs", {}),
        # kernels that copy registered memory at a fork
        (of_kernel("5.12.0-1"), "forked workers", "", {"fabric": "slingshot"}),
        (of_kernel("5.11.22-1"), "forked workers", "WARNING", {"fabric": "slingshot"}),
        (of_kernel("4.18.0-372.9.1.el8"), "forked workers", "", {"fabric": "slingshot"}),
        (of_kernel("4.18.0-371.1.el8"), "forked workers", "WARNING", {"fabric": "slingshot"}),
        # interfaces and cards
        (of_interface(name="ib0", up=False, mtu=1500), "interfaces", "BROKEN the site's profile: ib0 is down", {}),
        (_all(roce, _of_cards(state="DOWN")), "RoCE address", "", {}),
        (_all(env(NCCL_IB_GID_INDEX="3"), _of_cards(layer="InfiniBand")), "RoCE address", "", {}),
        (env(NCCL_IB_HCA="^mlx5_0"), "binding", "", {}),
        (env(NCCL_IB_HCA="mlx5_0"), "binding", "WARNING NCCL_IB_HCA=mlx5_0 leaves rank", {}),
        (_all(env(NCCL_IB_HCA="mlx5_0"), _of_cards(state="DOWN")), "binding", "", {}),
        (env(NCCL_IB_HCA="mlx9"), "binding", "", {}),
        # masks: a mask as wide as the node binds nothing
        (_masks("0-15", "0-3", "4-7", "8-11"), "binding", "", {}),
        (_masks("0-3", "0-15", "4-7", "8-11"), "binding", "", {}),
        (_masks("0-3", "3-7", "8-11", "12-15"), "binding", "WARNING ranks 4 and 5 on node2 share the CPUs 3", {}),
        (_masks("0-3", "0-3", "4-7", "4-7"), "binding", "WARNING ranks 4 and 5 on node2 have the same CPUs 0-3", {}),
        (_masks("0-15", "0-15", "0-3", "4-7"), "binding", "", {}),
        (_masks("0", "1", "2", "3"), "binding", "", {}),
        (env(OMP_NUM_THREADS=""), "threads", "", {}),
        (_all(env(CUDA_VISIBLE_DEVICES="7"), _eight_gpus), "binding", "", {}),
        (_all(of_node("gpus", []), env(CUDA_VISIBLE_DEVICES="7")), "binding", "", {}),
        (of_software("CUDA of torch", "13.0"), "GPU health", "", {}),
        (env(ROCR_VISIBLE_DEVICES="0", HIP_VISIBLE_DEVICES="GPU-a", CUDA_VISIBLE_DEVICES="0"), "variables", "", {}),
        (_all(env(NCCL_NET="Socket"), _of_cards(state="DOWN")), "variables", "BROKEN NCCL_NET=Socket: NCCL", {}),
        (_all(env(NCCL_NET="Socket"), _of_cards(state="DOWN")), "variables", "", {"fabric": "ethernet"}),
        (_of_cards(layer="Ethernet"), "RoCE address", "", {}),
        (of_software("torch", ""), "versions", "BROKEN torch differs: 2.13.0 on node1; none on node2", {}),
        (_of_all_shared("not there: no"), "shared directory", "", {}),
        (of_name("node2", addresses=[]), "names", "BROKEN node2 does not know the name node2", {}),
        (_also_far, "binding", "BROKEN rank 4 on node2 runs on CPUs 8-11, but its GPU 0 hangs on 0-7 (and 1", {}),
        (_one_card_more, "RDMA cards", "", {"nodes": 3}),
        (_one_card_more, "RDMA cards", "BROKEN mlx5_7 is not there on node1", {}),
        (_without_rank_0, "meeting", "", {}),
    ],
)  # fmt: skip
def test_what_is_said_at_a_limit(change: Break, what: str, says: str, shape: dict[str, Any]) -> None:
    said = [f"{found.status.upper()} {found.evidence}" for found in findings(change, **shape) if found.what == what]
    assert bool(said) == bool(says), said
    assert all(sentence.startswith(says) for sentence in said)


@pytest.mark.parametrize(
    ("variables", "says", "shape"),
    [
        ({"MASTER_ADDR": "localhost"}, "every node means itself", {}),
        ({"MASTER_ADDR": "::1"}, "every node means itself", {}),
        ({"MASTER_ADDR": "localhost"}, "", {"nodes": 1}),
        ({"NCCL_NET": "'IB"}, "", {}),
        ({"NCCL_NET": "'"}, "", {}),
        ({"NCCL_NET": "sIBs"}, "", {}),
        ({"NCCL_NET": "''"}, "the quotes are part of the value", {}),
        ({"NCCL_NET": "IB", "NCCL_NET_PLUGIN": "none"}, "", {}),
        ({"NCCL_NET_PLUGIN": "none"}, "", {}),
        ({"NCCL_NET_PLUGIN": "aws-ofi"}, "", {}),
        ({"NCCL_IB_DISABLE": "1"}, "", {"nodes": 1}),
        ({"FI_PROVIDER": "tcp"}, "", {"nodes": 1, "fabric": "slingshot"}),
        ({"FI_PROVIDER": "tcp"}, "", {"fabric": "ethernet"}),
        ({"FI_PROVIDER": "tcp"}, "", {"fabric": ""}),
        ({"FI_PROVIDER": "efa"}, "", {"fabric": "infiniband"}),
        ({"FI_PROVIDER": "cxi;ofi_rxm", "NCCL_PROTO": "^LL128"}, "", {"fabric": "slingshot"}),
        ({"FI_PROVIDER": "^tcp", "NCCL_PROTO": "^LL128"}, "", {"fabric": "slingshot"}),
        ({"NCCL_PROTO": "LL128"}, "", {"fabric": "slingshot", "nodes": 1}),
        ({"NCCL_PROTO": "Simple"}, "", {"fabric": "slingshot"}),
        ({"NCCL_IB_TIMEOUT": "31", "NCCL_IB_RETRY_CNT": "1"}, "after 2.4 h", {}),
        ({"NCCL_IB_TIMEOUT": "32"}, "the card's field ends at 31", {}),
        ({"NCCL_IB_TIMEOUT": "24"}, "", {}),
        ({"NCCL_IB_TIMEOUT": "25"}, "after 16.0 min", {}),
        ({"NCCL_MIN_NCHANNELS": "8", "NCCL_MAX_NCHANNELS": "8"}, "", {}),
        ({"NCCL_MIN_NCHANNELS": "8"}, "", {}),
        ({"NCCL_MAX_NCHANNELS": "8"}, "", {}),
        ({"NCCL_NET_GDR_LEVEL": "0"}, "", {"nodes": 1}),
        ({"NCCL_SOCKET_IFNAME": "lo"}, "", {"nodes": 1}),
        ({"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "59"}, "is ended", {}),
        ({"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60"}, "", {}),
    ],
)
def test_what_is_said_of_variables(variables: dict[str, str], says: str, shape: dict[str, Any]) -> None:
    said = [found.evidence for found in findings(env(**variables), **shape) if found.what == "variables"]
    assert bool(said) == bool(says), said
    assert all(says in sentence for sentence in said)


@pytest.mark.parametrize(
    ("software", "gpus", "is_said"),
    [
        ({"nccl": "2.27.3"}, "cuda", True),
        ({"nccl": "2.27.2"}, "cuda", False),
        ({"nccl": ""}, "cuda", False),
        ({"nccl": "2.27.3"}, "rocm", False),
    ],
)
def test_ll128_is_feared_of_nccl_itself_from_the_version_that_chooses_it(
    software: dict[str, str], gpus: str, is_said: bool
) -> None:
    change = _all(_of_all_software(**software), _of_all_nodes("gpus", [{"kind": gpus}] * 4))
    said = [found.evidence for found in findings(change, fabric="slingshot") if found.what == "variables"]
    assert any("may choose LL128" in sentence for sentence in said) is is_said


def test_cards_that_are_there_are_no_rdma_over_tcp_by_choice_on_a_fabric_with_a_plugin() -> None:
    for_plugin, for_both = {"NCCL_IB_DISABLE": "1"}, {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    quiet = {"fabric": "efa"}
    assert not [found for found in findings(env(**for_plugin), **quiet) if "use TCP" in found.evidence]
    (found,) = [found for found in findings(env(**for_both), **quiet) if "use TCP" in found.evidence]
    assert found.evidence.startswith("NCCL_NET=Socket and NCCL_IB_DISABLE=1: NCCL is told to use TCP")
    without_cards = _all(env(NCCL_NET="Socket"), _of_all_nodes("devices", []))
    assert not [found for found in findings(without_cards, fabric="ethernet") if "use TCP" in found.evidence]
    (found,) = [found for found in findings(env(NCCL_NET="Socket"), fabric="") if "use TCP" in found.evidence]
    assert found.evidence.endswith("the nodes have the RDMA devices mlx5_0, mlx5_1")


def test_of_a_rank_that_told_twice_the_words_without_trouble_count_and_else_the_first() -> None:
    first, again = {"rank": 0, "trouble": "late"}, {"rank": 0, "host": "node1"}
    assert world_of([first, again]).ranks == (again,)
    assert world_of([again, {"rank": 0, "host": "node2"}]).ranks == (again,)
    assert world_of([again, first]).ranks == (again,)
    assert world_of([{"rank": "0"}]).ranks == ()


def test_a_world_without_ranks_and_one_without_nodes_are_judged() -> None:
    _, login_node, expected = healthy()
    assert judge(world_of([], login_node, expected)) == []
    assert [found.what for found in judge(world_of([], None, {}))] == []


def _told_of_login(login_part: dict[str, Any], node_part: dict[str, Any]) -> list[str]:
    """What is said of a login node and its compute nodes that have these parts."""
    ranks, login_node, expected = healthy()
    for part, place in ((login_part, login_node), *((node_part, rank["node"]) for rank in ranks if "node" in rank)):
        for key, value in part.items():
            place[key] = {**place[key], **value} if isinstance(value, dict) else value
    return [found.evidence for found in judge(world_of(ranks, login_node, expected)) if found.what.startswith("login")]


@pytest.mark.parametrize(
    ("login_part", "node_part", "says"),
    [
        ({}, {}, ""),
        ({"software": {"machine": "aarch64"}}, {}, "the login node is aarch64"),
        ({"software": {"machine": ""}}, {}, ""),
        ({}, {"software": {"machine": ""}}, ""),
        ({"software": {"glibc": "2.39"}}, {}, "glibc is 2.39 here and 2.34"),
        ({"software": {"glibc": "2.4"}}, {}, ""),
        ({"software": {"glibc": ""}}, {}, ""),
        ({"software": {"glibc": "2.39"}}, {"software": {"glibc": ""}}, ""),
        ({"software": {"python": "3.12.1"}}, {}, "python is 3.12.1 here and 3.11.9"),
        ({"software": {"torch": ""}}, {}, ""),
        ({}, {"software": {"torch": ""}}, ""),
        ({"environment": {"LOADEDMODULES": "a:b"}}, {"environment": {"LOADEDMODULES": "b"}}, "not in the job: a"),
        ({"environment": {"LOADEDMODULES": "a:b"}}, {"environment": {"LOADEDMODULES": ""}}, ""),
        ({"environment": {"LOADEDMODULES": "b"}}, {"environment": {"LOADEDMODULES": "a:b"}}, ""),
        ({"mounts": {"/home/ada/project": "nfs"}}, {}, "/home/ada/project is on nfs here and on lustre"),
        ({"mounts": {"/tmp": "tmpfs"}}, {}, ""),
        ({"mounts": {"/elsewhere": "nfs"}}, {}, ""),
        ({"mounts": {"/w": ""}}, {"mounts": {"/w": "nfs"}}, "/w is on another file system here"),
        ({"egress": True}, {"egress": False}, "has no way out"),
        ({"egress": True}, {"egress": None}, ""),
        ({"egress": False}, {"egress": False}, ""),
    ],
)
def test_what_differs_from_the_login_node_is_told(
    login_part: dict[str, Any], node_part: dict[str, Any], says: str
) -> None:
    told = _told_of_login(login_part, node_part)
    assert bool(told) == bool(says), told
    assert all(says in sentence for sentence in told)


@pytest.mark.parametrize(
    ("rule", "is_missing"),
    [("=mlx5_9", True), ("=mlx5_9:1,mlx5_0", True), ("=mlx5_0:1", False), ("mlx5_9", False), ("^=mlx5_9", False)],
)
def test_a_card_that_is_named_whole_has_to_be_there(rule: str, is_missing: bool) -> None:
    told = [found.evidence for found in findings(env(NCCL_IB_HCA=rule)) if found.what == "RDMA cards"]
    assert told == (["mlx5_9 is not there on node1, node2"] if is_missing else [])


def test_an_interface_that_is_down_everywhere_is_another_matter_than_one_that_is_down_on_a_node() -> None:
    def remedies(change: Break) -> list[str]:
        return [found.remedy for found in findings(change) if found.what == "interfaces"]

    gone = [{"name": "lo", "up": True, "addresses": ["127.0.0.1"], "mtu": 65536}]
    (one,), (everywhere,) = remedies(of_node("interfaces", gone)), remedies(_of_all_nodes("interfaces", gone))
    assert "exclude the node" in one
    assert "name an interface" in everywhere
    half = [
        *gone,
        {"name": "ib0", "up": False, "addresses": ["10.0.0.9"]},
        {"name": "ib0x", "up": True, "addresses": []},
    ]
    prefix = _all(of_node("interfaces", half), env(NCCL_SOCKET_IFNAME="ib0"))
    told = [found.evidence for found in findings(prefix) if found.what == "interfaces"]
    assert any("ib0 has no address on node2" in sentence for sentence in told), told
