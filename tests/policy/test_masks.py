"""Masks are computed from a node's tables, and equal what the machines' own documents print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.policy.masks import bind_ranks, core_list, gpu_cores, mask_of, spell_cores
from sites.profiles import bundled

# LUMI user guide, distribution and binding; LUMI AI guide, run_ddp_srun_4.sh.
LUMI_MASKS = (
    "0x00fe000000000000,0xfe00000000000000,0x0000000000fe0000,0x00000000fe000000,"
    "0x00000000000000fe,0x000000000000fe00,0x000000fe00000000,0x0000fe0000000000"
)

# What each machine's documents say: site, kind of node, hardware threads a core, cores of GPU 0, 1, 2 …
PUBLISHED = [
    ("lumi", "g", 1, ["49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47"]),
    # Frontier user guide: NUMA 0 → GPU 4, 5; 1 → 2, 3; 2 → 6, 7; 3 → 0, 1; the first core of each L3 is the system's.
    ("frontier", "gpu", 1, ["49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47"]),
    # MLPerf HPC 1.0, HelmholtzAI, juwels_binding.sh: 18-23, 6-11, 42-47, 30-35; and the domain beside each.
    ("juwels-booster", "booster", 2, ["12-23,60-71", "0-11,48-59", "36-47,84-95", "24-35,72-83"]),
    # CSCS documentation, Slurm on GH200; JUPITER configuration page.
    ("clariden", "gh200", 1, ["0-71", "72-143", "144-215", "216-287"]),
    ("jupiter", "booster", 1, ["0-71", "72-143", "144-215", "216-287"]),
    # NERSC tutorial: GPUs in reverse order beside the cores; 32 threads each.
    ("perlmutter", "gpu", 2, ["48-63,112-127", "32-47,96-111", "16-31,80-95", "0-15,64-79"]),
]


@pytest.mark.parametrize(("site", "kind", "threads", "cores"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_the_cores_of_each_gpu_are_those_that_the_machine_publishes(
    site: str, kind: str, threads: int, cores: list[str]
) -> None:
    found = gpu_cores(bundled(site).profile.nodes[kind], threads=threads)
    assert found is not None
    assert [spell_cores(each) for each in found] == cores


def test_the_eight_masks_of_lumi_come_out_of_its_tables() -> None:
    site = bundled("lumi").profile
    bound = bind_ranks(site, site.nodes["g"], ranks=8, whole_node=True)
    expected = [int(mask, 16) for mask in LUMI_MASKS.split(",")]
    flag, _, masks = bound.flags[0].partition(":")
    assert flag == "--cpu-bind=mask_cpu"
    assert [int(mask, 16) for mask in masks.split(",")] == expected


def test_a_part_of_a_node_gets_no_masks_and_the_reason() -> None:
    site = bundled("lumi").profile
    bound = bind_ranks(site, site.nodes["g"], ranks=8, whole_node=False)
    assert not bound.flags
    assert "part of a node" in bound.reason


def test_another_number_of_ranks_than_gpus_gets_no_masks_and_the_reason() -> None:
    site = bundled("lumi").profile
    bound = bind_ranks(site, site.nodes["g"], ranks=4, whole_node=True)
    assert not bound.flags
    assert "there are 4 ranks" in bound.reason


def test_ranks_take_their_cores_in_the_order_in_which_the_site_gives_the_gpus() -> None:
    site = bundled("perlmutter").profile
    natural = bind_ranks(site, site.nodes["gpu"], ranks=4, whole_node=True)
    reversed_site = replace(site, devices=replace(site.devices, order=(3, 2, 1, 0)))
    bound = bind_ranks(reversed_site, site.nodes["gpu"], ranks=4, whole_node=True)
    assert spell_cores(natural.cores[0]) == "48-63,112-127"
    assert spell_cores(bound.cores[0]) == "0-15,64-79"  # local rank 0 is then on GPU 3


def test_a_site_without_tables_is_not_bound() -> None:
    site = bundled("horeka").profile
    assert not bind_ranks(site, site.nodes["h100"], ranks=4, whole_node=True).flags


@given(st.sets(st.integers(0, 300), min_size=1, max_size=80))
def test_lists_of_cores_are_read_as_they_are_written(cores: set[int]) -> None:
    assert set(core_list(spell_cores(cores))) == cores
    assert int(mask_of(cores), 16).bit_count() == len(cores)


@pytest.mark.parametrize("site", ["lumi", "frontier", "juwels-booster", "clariden", "daint", "jupiter", "perlmutter"])
def test_no_core_belongs_to_two_gpus_and_none_is_the_systems(site: str) -> None:
    for node in bundled(site).profile.nodes.values():
        tables = gpu_cores(node)
        if tables is None:
            continue
        cores = [core for table in tables for core in table]
        assert len(cores) == len(set(cores))
        reserved = set(core_list(node.reserved_cores)) if node.reserved_cores else set()
        assert not reserved & set(cores)
        assert len(cores) == (node.cores or 0) - len(reserved)
