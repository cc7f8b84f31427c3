"""Nodes as their sites describe them, as facts of a check: where the cores, GPUs and network cards are.

What a page does not say is left out (LUMI: on which domain each hsn interface hangs; MareNostrum 5: each GPU, and
its cards; that its 80 cores are two sockets is what such processors are).
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["ALPS", "FRONTIER", "JUPITER", "LUMI", "MARENOSTRUM5", "TOPOLOGIES", "Topology"]


class Topology(NamedTuple):
    """One kind of node, where it was read, and the masks of ranks that are right there."""

    name: str
    source: str
    read_on: str
    numa: tuple[str, ...]
    threads_per_core: int
    gpu_numa: tuple[int | None, ...]
    cards: tuple[tuple[str, int | None], ...]
    right: tuple[str, ...]
    """The cores of each rank, by local rank."""

    @property
    def cores(self) -> int:
        return 1 + max(int(domain.split("-")[1]) for domain in self.numa)

    def node(self, host: str = "node1") -> dict[str, Any]:
        """What the node would tell."""
        cores, threads = self.cores, self.threads_per_core
        siblings = [",".join(str(core + cores * thread) for thread in range(threads)) for core in range(cores)]
        return {
            "host": host,
            "cpus": {
                "online": f"0-{cores * threads - 1}",
                "numa": {str(number): self._domain(text) for number, text in enumerate(self.numa)},
                "siblings": siblings,
            },
            "gpus": [
                {"bus": f"0000:{number:02x}:00.0", "name": self.name, "kind": "cuda", "numa": numa, "cpus": ""}
                for number, numa in enumerate(self.gpu_numa)
            ],
            "devices": [{"name": name, "numa": numa, "state": "ACTIVE"} for name, numa in self.cards],
        }

    def _domain(self, text: str) -> str:
        low, high = (int(word) for word in text.split("-"))
        threads = range(self.threads_per_core)
        return ",".join(f"{low + self.cores * thread}-{high + self.cores * thread}" for thread in threads)

    def ranks(self, masks: tuple[str, ...] | None = None, threads: str = "") -> list[dict[str, Any]]:
        """One rank for each mask, on one node."""
        masks = masks or self.right
        return [
            {
                "rank": number,
                "size": len(masks),
                "local_rank": number,
                "local_size": len(masks),
                "host": "node1",
                "hosts": ["node1"],
                "mask": mask,
                "environment": {"OMP_NUM_THREADS": threads} if threads else {},
                **({"node": self.node()} if number == 0 else {}),
            }
            for number, mask in enumerate(masks)
        ]


_MI250X = ("49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47")
_GH200 = ("0-71", "72-143", "144-215", "216-287")

LUMI = Topology(
    "LUMI-G",
    "https://github.com/Lumi-supercomputer/lumi-userguide/blob/main/docs/runjobs/scheduled-jobs/distribution-binding.md",
    "2026-11-20",
    numa=("0-15", "16-31", "32-47", "48-63"),
    threads_per_core=2,
    gpu_numa=(3, 3, 1, 1, 0, 0, 2, 2),
    cards=(("hsn0", None), ("hsn1", None), ("hsn2", None), ("hsn3", None)),
    right=_MI250X,
)
FRONTIER = LUMI._replace(
    name="Frontier",
    source="https://github.com/olcf/olcf-user-docs/blob/master/systems/frontier_user_guide.rst",
)
ALPS = Topology(
    "Alps GH200",
    "https://github.com/eth-cscs/cscs-docs/blob/main/docs/running/slurm.md",
    "2026-11-20",
    numa=_GH200,
    threads_per_core=1,
    gpu_numa=(0, 1, 2, 3),
    cards=(("hsn0", None), ("hsn1", None), ("hsn2", None), ("hsn3", None)),
    right=_GH200,
)
JUPITER = ALPS._replace(
    name="JUPITER GH200",
    source="https://apps.fz-juelich.de/jsc/hps/jupiter/configuration.html",
    cards=(("mlx5_0", 0), ("mlx5_1", 1), ("mlx5_2", 2), ("mlx5_3", 3)),
)
MARENOSTRUM5 = Topology(
    "MareNostrum 5 ACC",
    "https://github.com/TJ-Solergibert/MN5-Distributed-PyTorch",
    "2026-11-20",
    numa=("0-39", "40-79"),
    threads_per_core=1,
    gpu_numa=(None, None, None, None),
    cards=(),
    right=("0-19", "20-39", "40-59", "60-79"),
)
TOPOLOGIES = (LUMI, FRONTIER, ALPS, JUPITER, MARENOSTRUM5)
