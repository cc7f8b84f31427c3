"""The picture of a node, whole, as a person sees it: nodes of five machines, and ranks that are bound wrongly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster_check.picture import pictures
from muster_check.ranks.facts import world_of

from .topologies import ALPS, LUMI, MARENOSTRUM5, TOPOLOGIES, Topology
from .worlds import healthy

GOLDEN = Path(__file__).parent / "pictures"


def shown(topology: Topology, masks: tuple[str, ...] | None = None) -> str:
    (text,) = pictures(world_of(topology.ranks(masks)))
    return text + "\n"


CASES: dict[str, tuple[Topology, tuple[str, ...] | None]] = {
    **{topology.name.lower().replace(" ", "-"): (topology, None) for topology in TOPOLOGIES},
    "lumi-in-order": (LUMI, tuple(f"{low}-{low + 6}" for low in range(1, 64, 8))),
    "one-core": (MARENOSTRUM5, ("0",) * 4),
    "unbound": (ALPS, ("0-287",) * 4),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_a_person_has_looked_at_it_and_fits_a_terminal(name: str, golden: Callable[[Path, str], None]) -> None:
    text = shown(*CASES[name])
    golden(GOLDEN / f"{name}.txt", text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.isascii(), "a terminal may know no more"


def test_nodes_that_look_alike_are_shown_once() -> None:
    ranks, login, expected = healthy(nodes=6)
    (text,) = pictures(world_of(ranks, login, expected))
    assert text.startswith("node1, node2, node3, node4 and 2 more: 16 cores, 2 NUMA domains, 4 GPUs, 2 cards")


def test_without_ranks_the_login_node_is_shown() -> None:
    _, login, _ = healthy()
    (text,) = pictures(world_of([], login))
    assert text.startswith("login1: 16 cores")


def test_a_strange_node_still_fits_a_terminal() -> None:
    """Domains that are numbered in turns, ten cards on one of them; or no domains at all."""
    node = MARENOSTRUM5.node()
    node["cpus"]["numa"] = {str(half): ",".join(str(cpu) for cpu in range(half, 80, 2)) for half in (0, 1)}
    node["devices"] = [{"name": f"mlx5_bond_{number}", "numa": 0, "state": "ACTIVE"} for number in range(10)]
    ranks = MARENOSTRUM5.ranks()
    ranks[0]["node"] = node
    (text,) = pictures(world_of(ranks))
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert "mlx5_bond_9" in text
    node["cpus"]["numa"] = {}
    (text,) = pictures(world_of(ranks))
    assert "0000000000" in text
    assert "GPU 0-3" in text
