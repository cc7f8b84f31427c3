"""The conditions of a profile: where each holds, where it just does not, and what it is called."""

from __future__ import annotations

from typing import Any

import pytest

from muster.sites.schema import SiteVariable, When
from muster.sites.when import Situation, applies, holds, say_when


@pytest.mark.parametrize(
    ("key", "limit", "about", "met", "unmet", "words"),
    [
        ("nodes_min", 2, "nodes", [2, 3], [1], "on 2 nodes or more"),
        ("nodes_max", 4, "nodes", [1, 4], [5], "on 4 nodes or fewer"),
        ("nodes_max", 1, "nodes", [1], [2], "on one node"),
        ("gpus_min", 1, "gpus_per_node", [1, 8], [0], "with 1 GPU or more a node"),
        ("gpus_min", 2, "gpus_per_node", [2, 3], [1], "with 2 GPUs or more a node"),
        ("gpus_max", 1, "gpus_per_node", [0, 1], [2], "with 1 or fewer GPUs a node"),
        ("gpus_max", 0, "gpus_per_node", [0], [1], "without GPUs"),
        ("whole_node", True, "whole_node", [True], [False], "on whole nodes"),
        ("whole_node", False, "whole_node", [False], [True], "on parts of nodes"),
        ("time_max", "01:00:00", "time_s", [60, 3600], [3601, None], "for 01:00:00 or less"),
        ("launchers", ("srun", "mpirun"), "launcher", ["mpirun"], ["torchrun"], "under srun or mpirun"),
        ("stacks", ("rocm", "cuda"), "stack", ["cuda"], [None, "cpu"], "with rocm or cuda"),
        ("container", True, "container", [True], [False], "in a container"),
        ("container", False, "container", [False], [True], "without a container"),
        ("gpu_kinds", ("a100",), "gpu_kind", ["a100"], [None, "h100"], "on nodes of kind a100"),
        ("nccl_below", "2.19.3", "nccl", ["2.9.1", "2.19.2"], ["2.19.3", "2.20", None], "with NCCL older than 2.19.3"),
        ("trial", True, "trial", [True], [False], "with --trial"),
        ("trial", False, "trial", [False], [True], "without --trial"),
        ("workload", "ray", "workloads", [frozenset({"ray"})], [frozenset()], "with --workload ray"),
    ],
)
def test_a_condition_ends_where_its_words_say(
    key: str, limit: Any, about: str, met: list[Any], unmet: list[Any], words: str
) -> None:
    bent: dict[str, Any] = {key: limit}
    condition = When(**bent)
    assert say_when(condition) == words
    assert [holds(condition, Situation(**{about: value})) for value in met] == [True] * len(met)
    assert [holds(condition, Situation(**{about: value})) for value in unmet] == [False] * len(unmet)


def test_the_gpus_of_all_nodes_count_together() -> None:
    condition = When(all_gpus_max=8)
    assert say_when(condition) == "with 8 GPUs or fewer on all nodes together"
    assert [holds(condition, Situation(nodes=nodes, gpus_per_node=4)) for nodes in (2, 3)] == [True, False]


@pytest.mark.parametrize(
    ("verdict", "when", "with_ray", "without"),
    [
        ("kept", None, True, True),
        ("kept", When(nodes_min=2), False, False),
        ("dropped", None, False, False),
        ("offered", None, False, False),
        ("offered", When(nodes_max=1), False, False),
        ("offered", When(workload="ray"), True, False),
        ("offered", When(workload="ray", nodes_min=2), False, False),
    ],
)
def test_what_is_offered_is_there_for_its_workload_alone(
    verdict: Any, when: When | None, with_ray: bool, without: bool
) -> None:
    variable = SiteVariable(name="NAME", value="1", reason="why", verdict=verdict, when=when)
    assert applies(variable, Situation(workloads=frozenset({"ray"}))) is with_ray
    assert applies(variable, Situation()) is without
