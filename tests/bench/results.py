"""Results made up for tests of what the login side makes of results; the ranks' own are in test_ranks.py."""

from collections.abc import Mapping

from muster_bench.factors import bus_factor
from muster_bench.results import CollectiveRow, Pairs, Start

MIB = 1 << 20


def start(nodes: int = 2, ranks_per_node: int = 4, device: str = "NVIDIA GH200", **more: object) -> Start:
    """A start of this shape, everything alike."""
    size = nodes * ranks_per_node
    values: dict[str, object] = {
        "time": 1_795_000_000.0,
        "size": size,
        "hosts": tuple(f"n{node}" for node in range(nodes)),
        "ranks_per_node": ranks_per_node,
        "backend": "nccl",
        "node_of_rank": tuple(rank // ranks_per_node for rank in range(size)),
        "devices": (device,) * size,
        "torch": ("2.9.0",) * size,
        "nccl": ("2.28.3",) * size,
        "trials": 7,
        "iterations": 20,
        "free_bytes": 1 << 36,
    }
    return Start(**{**values, **more})  # type: ignore[arg-type]


def row(
    busbw_gb_s: float, nodes: int, ranks: int, size: int, collective: str = "all_reduce", **more: object
) -> CollectiveRow:
    """A row that has this bus bandwidth."""
    seconds = size * float(bus_factor(collective, ranks)) / (busbw_gb_s * 1e9)
    values: dict[str, object] = {
        "scope": "nodes",
        "nodes": nodes,
        "ranks": ranks,
        "collective": collective,
        "dtype": "float32",
        "place": "in",
        "bytes": size,
        "iterations": 20,
        "seconds": (seconds * 0.99, seconds, seconds * 1.01),
    }
    return CollectiveRow(**{**values, **more})  # type: ignore[arg-type]


def round_of(number: int, rates_gb_s: Mapping[tuple[int, int], float], size: int = 16 * MIB) -> Pairs:
    """A round in which these pairs had these rates."""
    pairs = tuple((a, b, size / (rate * 1e9), 0, 0.03) for (a, b), rate in rates_gb_s.items())
    return Pairs(round=number, bytes=size, pairs=pairs)
