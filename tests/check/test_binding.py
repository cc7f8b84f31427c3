"""Where ranks run: right and wrong masks on nodes as their sites describe them, and on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rank.finding import BROKEN, WARNING, Finding
from muster_check.ranks.cpulist import cpu_list, cpu_set
from muster_check.ranks.facts import world_of
from muster_check.ranks.gather import cpus_of, own_mask
from muster_check.ranks.table import CHECKS, judge

from .topologies import ALPS, JUPITER, LUMI, MARENOSTRUM5, TOPOLOGIES, Topology

BINDING = [check for check in CHECKS if check.name in {"binding", "threads"}]


def findings(topology: Topology, masks: tuple[str, ...] | None = None, threads: str = "") -> list[Finding]:
    return judge(world_of(topology.ranks(masks, threads)), checks=BINDING)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_the_masks_of_the_site_are_right(topology: Topology) -> None:
    assert findings(topology) == []


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_ranks_that_are_bound_to_nothing_are_no_finding(topology: Topology) -> None:
    everything = topology.node()["cpus"]["online"]
    assert findings(topology, (everything,) * len(topology.right)) == []


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_all_ranks_on_one_core_are_broken(topology: Topology) -> None:
    found = findings(topology, ("0",) * len(topology.right))[0]
    assert found.status == BROKEN
    assert found.evidence == f"all {len(topology.right)} ranks of node1 run on one core (CPUs 0)"


def test_lumis_ranks_in_the_order_of_the_cores_lie_far_from_their_gpus() -> None:
    """What a plain srun -c 7 does there: rank 0 on the first cores, whose neighbour is GPU 4."""
    in_order = tuple(f"{low}-{low + 6}" for low in range(1, 64, 8))
    (found,) = findings(LUMI, in_order)
    assert found.status == BROKEN
    assert found.evidence.startswith("rank 0 on node1 runs on CPUs 1-7, but its GPU 0 hangs on 48-63,112-127")
    assert "(and 5 ranks more)" in found.evidence


def test_gh200s_ranks_that_are_swapped_are_named() -> None:
    (found,) = findings(ALPS, ("72-143", "0-71", "144-215", "216-287"))
    assert found.evidence == ("rank 0 on node1 runs on CPUs 72-143, but its GPU 0 hangs on 0-71 (and 1 rank more)")


def test_one_core_for_many_threads_is_broken() -> None:
    """A launcher without --cpus-per-task: each rank its own core, twenty threads on it."""
    found = findings(MARENOSTRUM5, ("0", "20", "40", "60"), threads="20")
    assert found[0].status == BROKEN
    assert "rank 0 on node1 has one core (CPU 0) and 20 threads" in found[0].evidence


def test_masks_that_overlap_are_named_with_what_they_share() -> None:
    (found,) = findings(MARENOSTRUM5, ("0-25", "20-39", "40-59", "60-79"))
    assert found.status == WARNING
    assert "ranks 0 and 1 on node1 share the CPUs 20-25" in found.evidence


def test_two_ranks_with_one_mask_are_named_where_the_others_have_their_own() -> None:
    found = findings(LUMI, (LUMI.right[0], *LUMI.right[:1], *LUMI.right[2:]))
    assert any("ranks 0 and 1 on node1 have the same CPUs" in each.evidence for each in found)


def test_two_ranks_on_the_threads_of_one_core_are_named() -> None:
    found = findings(LUMI, ("49-55", "113-119"))
    assert [each.evidence for each in found if "hardware threads" in each.evidence] == [
        "ranks 0 and 1 on node1 run on the hardware threads of 7 cores (49-55)"
    ]


def test_more_threads_than_cpus_are_counted_over_all_that_share_them() -> None:
    everything = MARENOSTRUM5.node()["cpus"]["online"]
    (found,) = findings(MARENOSTRUM5, (everything,) * 4, threads="80")
    assert found.what == "threads"
    assert "4 ranks on node1: OMP_NUM_THREADS=80, so 320 threads on 80 CPUs" in found.evidence


def test_a_card_that_a_variable_takes_away_from_a_rank_is_missed() -> None:
    ranks = JUPITER.ranks()
    for rank in ranks:
        rank["environment"]["NCCL_IB_HCA"] = "=mlx5_0"
    (found,) = judge(world_of(ranks), checks=BINDING)
    assert "leaves rank 1 on node1 no card beside its GPU 1 (NUMA 1, where mlx5_1 hangs)" in found.evidence


@given(st.permutations(range(8)), st.sampled_from([LUMI.right, ("0",) * 8, ("0-63",) * 8]))
def test_the_order_in_which_ranks_tell_is_of_no_matter(order: list[int], masks: tuple[str, ...]) -> None:
    ranks = LUMI.ranks(masks)
    assert judge(world_of([ranks[index] for index in order]), checks=BINDING) == findings(LUMI, masks)


@given(st.sets(st.integers(0, 4096)))
def test_a_list_of_cpus_is_read_as_it_was_written(cpus: set[int]) -> None:
    assert cpu_set(cpu_list(cpus)) == cpus


def test_this_machine_is_read_as_the_kernel_has_it() -> None:
    cpus = cpus_of()
    assert cpu_set(own_mask()) == os.sched_getaffinity(0)
    assert cpu_set(cpus["online"]) >= os.sched_getaffinity(0)
    if cpus["numa"]:
        assert set().union(*(cpu_set(each) for each in cpus["numa"].values())) == cpu_set(cpus["online"])


def test_a_mask_of_one_core_on_this_machine_is_found(tmp_path: Path) -> None:
    """Really bound, by taskset; the node has to have more cores than that."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("by design: this machine has one core")
    cpu = str(min(os.sched_getaffinity(0)))
    words = ["check", "--here", "--ntasks-per-node", "2", "--quiet"]
    done = subprocess.run(
        ["taskset", "-c", cpu, sys.executable, "-m", "muster", *words],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert f"run on one core (CPUs {cpu})" in done.stdout


def test_ranks_that_each_see_their_own_gpu_as_number_0_are_right() -> None:
    """Where Slurm closes the other GPUs to a task, all of them count from 0: what a rank may open tells which it is."""
    ranks = ALPS.ranks()
    for number, rank in enumerate(ranks):
        rank["environment"]["CUDA_VISIBLE_DEVICES"] = "0"
        rank["reach"] = [number]
    assert judge(world_of(ranks)) == []
    for rank in ranks:
        rank["reach"] = [0, 1, 2, 3]
    assert "use the same GPU (0)" in judge(world_of(ranks))[0].evidence


def test_of_two_filters_the_inner_counts_within_the_outer() -> None:
    ranks = LUMI.ranks()
    for number, rank in enumerate(ranks):
        rank["environment"].update(ROCR_VISIBLE_DEVICES=str(number), HIP_VISIBLE_DEVICES="0")
    assert judge(world_of(ranks)) == []


def test_a_gpu_that_is_named_by_its_uuid_is_known() -> None:
    ranks = ALPS.ranks(("72-143", "0-71", "144-215", "216-287"))
    for number, gpu in enumerate(ranks[0]["node"]["gpus"]):
        gpu["uuid"] = f"GPU-{number}a2b"
    for number, rank in enumerate(ranks):
        rank["environment"]["CUDA_VISIBLE_DEVICES"] = f"GPU-{number}a"
    (found,) = judge(world_of(ranks), checks=BINDING)
    assert "rank 0 on node1 runs on CPUs 72-143, but its GPU 0 hangs on 0-71" in found.evidence


def test_some_ranks_on_one_core_are_named_among_others_that_are_right() -> None:
    (found,) = findings(MARENOSTRUM5, ("5", "5", "40-59", "60-79"))
    assert found.status == BROKEN
    assert found.evidence == "ranks 0 and 1 of node1 run on one core (CPU 5)"


@pytest.mark.parametrize("threads", ["²", "", "many", "-4", "9" * 5000])
def test_what_is_no_number_of_threads_is_passed_over(threads: str) -> None:
    assert findings(MARENOSTRUM5, threads=threads) == []


def test_of_nested_threads_the_outer_count() -> None:
    (found,) = findings(MARENOSTRUM5, threads="400,2")
    assert "OMP_NUM_THREADS=400" in found.evidence
