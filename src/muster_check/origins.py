"""Every variable that changes how ranks speak: its value, who set it, and which ranks differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_check.ranks.cpulist import cpu_list
from muster_check.ranks.facts import CheckedWorld

_OF_THE_LAUNCH = re.compile(r"^(SLURM_|OMPI_MCA_|PMI|LOCAL_WORLD_SIZE)")


class InForce(NamedTuple):
    """One value of one variable."""

    name: str
    value: str
    origin: str
    holders: str
    """The ranks that have it: "all", or a list."""


def variables_of(world: CheckedWorld) -> list[InForce]:
    """Return a line for each variable that is set, and one for each of its values where ranks differ."""
    names = sorted({name for rank in world.ranks for name in rank["environment"]})
    return [
        InForce(name, value, _origin(name, world.expected.get("origins", {})), holders)
        for name in names
        for value, holders in _values(name, [rank["environment"] for rank in world.ranks])
    ]


def _values(name: str, environments: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    ranks_by_value: dict[str, list[int]] = {}
    for number, environment in enumerate(environments):
        ranks_by_value.setdefault(environment.get(name, "not set"), []).append(number)
    if len(ranks_by_value) == 1:
        return [(next(iter(ranks_by_value)), "all")]
    if len(ranks_by_value) > 4 and len(ranks_by_value) == len(environments):
        first = next(iter(ranks_by_value))
        return [(f"{first}, …", "each its own")]
    return [(value, cpu_list(ranks)) for value, ranks in ranks_by_value.items()]


def _origin(name: str, origins: Mapping[str, str]) -> str:
    if name in origins:
        return origins[name]
    return "the launcher" if _OF_THE_LAUNCH.match(name) else "found there: the node, a module or the image"
