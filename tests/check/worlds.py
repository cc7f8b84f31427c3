"""Worlds made of facts as ranks tell them: a healthy cluster, and ways to break one thing in it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from muster.rank.finding import Finding
from muster_check.ranks.facts import CheckedWorld, world_of
from muster_check.ranks.table import judge

__all__ = ["Break", "broken", "env", "findings", "healthy", "node", "only"]

# Changes the documents of the ranks, and what was expected of them.
Break = Callable[[list[dict[str, Any]], dict[str, Any]], None]

GPUS = 4
CORES = 16


def healthy(nodes: int = 2, per_node: int = GPUS, fabric: str = "infiniband") -> tuple[list[dict[str, Any]], Any, Any]:
    """(what ranks tell, the login node, what is expected) of a cluster in which nothing is wrong."""
    hosts = [f"node{number}" for number in range(1, nodes + 1)]
    ranks = [_rank(hosts, number, per_node) for number in range(nodes * per_node)]
    expected = {
        "gpus": GPUS,
        "gpu_numa": [0, 0, 1, 1],
        "fabric": fabric,
        "interfaces": ["ib0"],
        "hcas": ["mlx5_0", "mlx5_1"],
    }
    return ranks, {**_node("login1", hosts), "gpus": [], "devices": []}, expected


def _rank(hosts: list[str], number: int, per_node: int) -> dict[str, Any]:
    local_rank, host = number % per_node, hosts[number // per_node]
    cores = CORES // GPUS
    told: dict[str, Any] = {
        "rank": number,
        "size": len(hosts) * per_node,
        "local_rank": local_rank,
        "local_size": per_node,
        "host": host,
        "hosts": hosts,
        "mask": f"{local_rank * cores}-{local_rank * cores + cores - 1}",
        "environment": {
            "MASTER_ADDR": hosts[0],
            "MASTER_PORT": "23456",
            "OMP_NUM_THREADS": str(cores),
            "CUDA_VISIBLE_DEVICES": "0,1,2,3",
            "RANK": str(number),
        },
    }
    if number:
        told["link"] = {"offset_s": 0.0002, "round_trip_s": 0.0001, "bytes_per_s": 2e9}
    if local_rank == 0:
        told["node"] = _node(host, hosts)
    return told


def _node(host: str, hosts: list[str]) -> dict[str, Any]:
    half = CORES // 2
    return {
        "host": host,
        "cpus": {
            "online": f"0-{CORES - 1}",
            "numa": {"0": f"0-{half - 1}", "1": f"{half}-{CORES - 1}"},
            "siblings": [str(core) for core in range(CORES)],
        },
        "gpus": [
            {"bus": f"0000:{number:02x}:00.0", "name": "GPU", "kind": "cuda", "numa": number // 2, "cpus": ""}
            for number in range(GPUS)
        ],
        "devices": [
            {"name": f"mlx5_{number}", "numa": number, "state": "ACTIVE", "layer": "InfiniBand", "rate": "200"}
            for number in range(2)
        ],
        "interfaces": [
            {"name": "lo", "up": True, "addresses": ["127.0.0.1"], "mtu": 65536, "speed_mbit": None, "numa": None},
            {"name": "ib0", "up": True, "addresses": ["10.0.0.9"], "mtu": 4092, "speed_mbit": None, "numa": 0},
        ],
        "software": {
            "machine": "x86_64",
            "glibc": "2.34",
            "kernel": "5.14.0",
            "python": "3.11.9",
            "torch": "2.13.0",
            "nccl": "2.27.7",
            "NVIDIA driver": "570.86.15",
        },
        "environment": {},
        "mounts": {"/tmp": "xfs", "/home/ada/project": "lustre"},
        "space": [
            {"path": "/tmp", "free_mib": 100_000, "size_mib": 200_000, "free_files": 10_000_000},
            {"path": "/dev/shm", "free_mib": 60_000, "size_mib": 64_000, "free_files": None},
        ],
        "limits": {"nofile": 65536, "memlock": None, "nproc": 100_000, "stack": 8 << 20, "as": None},
        "names": [
            {
                "name": each,
                "addresses": [f"10.0.0.{number}"],
                "seconds": 0.001,
                "reverse": each,
                "reverse_s": 0.001,
            }
            for number, each in enumerate(hosts, start=1)
        ],
        "smi": {},
        "leftovers": [],
        "shared": {"/home/ada/project": "4711"},
        "egress": False,
    }


def node(ranks: list[dict[str, Any]], host: str = "node2") -> Any:
    """What a node told, to change it."""
    return next(rank["node"] for rank in ranks if rank["host"] == host and "node" in rank)


def env(**values: str) -> Break:
    """The variables in every rank."""

    def change(ranks: list[dict[str, Any]], _expected: dict[str, Any]) -> None:
        for rank in ranks:
            rank["environment"].update(values)

    return change


def only(change: Break, host: str = "node2") -> Break:
    """The change on one host alone."""

    def on_one(ranks: list[dict[str, Any]], expected: dict[str, Any]) -> None:
        change([rank for rank in ranks if rank["host"] == host], expected)

    return on_one


def broken(change: Break, **shape: Any) -> CheckedWorld:
    """A healthy cluster with one change."""
    ranks, login, expected = deepcopy(healthy(**shape))
    change(ranks, expected)
    return world_of(ranks, login, expected)


def findings(change: Break, **shape: Any) -> list[Finding]:
    """What is found in it."""
    return judge(broken(change, **shape))
