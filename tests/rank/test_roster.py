"""Guards who sits where: local ranks from the launcher or counted per host, GPUs that no two ranks share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rank.devices import Torch, choose_backend, eager_is_safe, gpu_index, gpus_asked_for, refuse_shared
from muster.rank.errors import WireupError
from muster.rank.identity import Identity
from muster.rank.roster import Introduction, absent, seats, split

CPU = Torch("2.13.0+cpu", "", 0, collectives=False)
BLIND = Torch("2.13.0+cu128", "CUDA 12.8", 0, collectives=True)
FOUR = Torch("2.13.0+cu128", "CUDA 12.8", 4, collectives=True)


def places(
    *hosts: str, node: list[int | None] | None = None, local: list[int | None] | None = None
) -> list[Introduction]:
    nothing: list[int | None] = [None] * len(hosts)
    told = zip(hosts, node or nothing, local or nothing)
    return [
        Introduction(host, 100 + rank, 1, node_rank, local_rank)
        for rank, (host, node_rank, local_rank) in enumerate(told)
    ]


def sat(
    *hosts: str, node: list[int | None] | None = None, local: list[int | None] | None = None
) -> list[tuple[int, ...]]:
    return [
        (seat.node_rank, seat.local_rank, seat.local_size) for seat in seats(places(*hosts, node=node, local=local))
    ]


def test_local_ranks_are_counted_on_each_host() -> None:
    assert sat("a", "b", "a", "b", "b") == [(0, 0, 2), (1, 0, 3), (0, 1, 2), (1, 1, 3), (1, 2, 3)]


def test_the_launchers_local_ranks_are_kept() -> None:
    assert sat("a", "a", local=[1, 0]) == [(0, 1, 2), (0, 0, 2)]
    assert sat("b", "a", node=[1, 0], local=[0, 0]) == [(1, 0, 1), (0, 0, 1)]
    assert sat("a", "a", local=[1, None]) == [(0, 0, 2), (0, 1, 2)]


def test_nodes_that_share_a_host_are_told_apart_by_their_number() -> None:
    assert sat("here", "here", node=[0, 1], local=[0, 0]) == [(0, 0, 1), (1, 0, 1)]


def test_a_local_rank_given_twice_is_refused() -> None:
    with pytest.raises(WireupError, match="ranks 1 and 2 on b both have local rank 0"):
        sat("a", "b", "b", local=[0, 0, 0])


def test_two_ranks_on_one_gpu_are_named() -> None:
    refuse_shared([("a", "GPU-1"), ("a", "GPU-2"), ("b", "GPU-1")])
    with pytest.raises(WireupError, match=r"ranks 0 and 2 on a use the same GPU \(GPU-1\)"):
        refuse_shared([("a", "GPU-1"), ("a", "GPU-2"), ("a", "GPU-1")])


def test_missing_ranks_are_named_with_their_host_where_it_is_known() -> None:
    identity = Identity("slurm", 0, 5, hosts=("n1", "n2", "n3"), tasks_per_node=(2, 2, 1))
    here = places("n1.cluster", "n1", "n2", "n2", "n3")
    assert absent([3, 4], [*here[:3], None, None], identity) == "ranks 3 (n2), 4 (n3)"
    assert absent([4], [*here[:4], None], identity) == "rank 4 (n3)"
    cyclic = places("n1", "n2", "n3", "n1", "n2")
    assert absent([4], [*cyclic[:4], None], identity) == "rank 4"
    assert absent([1], [here[0], None], Identity("env", 0, 2)) == "rank 1"
    assert absent(range(1, 30), [here[0], *[None] * 29], Identity("env", 0, 30)).endswith("8 and 21 more")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=24), st.integers(1, 6))
def test_every_seat_is_taken_once_also_in_a_split(hosts: list[str], instances: int) -> None:
    everyone = seats(places(*hosts))
    assert len({(seat.node_rank, seat.local_rank) for seat in everyone}) == len(hosts)
    assert {seat.local_size for seat in everyone if seat.host == hosts[0]} == {hosts.count(hosts[0])}
    if len(hosts) % instances:
        with pytest.raises(WireupError):
            split(everyone, 0, instances)
        return
    worlds = [split(everyone, rank, instances) for rank in range(len(hosts))]
    assert sorted({number for _, number in worlds}) == list(range(instances))
    for rank, (members, _) in enumerate(worlds):
        seat = members[rank % len(members)]
        assert seat.pid == everyone[rank].pid
        assert seat.local_rank < seat.local_size
        assert len({(one.node_rank, one.local_rank) for one in members}) == len(members) == len(hosts) // instances


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, None),
        ({"MUSTER_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0,1"}, False),
        ({"MUSTER_GPUS": "4"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_GPUS": "0"}, False),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, False),
        ({"ROCR_VISIBLE_DEVICES": "3"}, True),
        ({"SLURM_JOB_GPUS": "0,1,2,3"}, True),
    ],
)
def test_the_evidence_that_gpus_were_asked_for(environment: dict[str, str], asked: bool | None) -> None:
    assert gpus_asked_for(environment)[0] is asked


def test_nccl_on_gpus_and_gloo_where_none_was_asked_for() -> None:
    assert choose_backend(None, {}, FOUR)[:2] == ("nccl", "cuda")
    assert choose_backend(None, {"MUSTER_GPUS": "0"}, FOUR)[:2] == ("gloo", "cpu")
    assert choose_backend("gloo", {"MUSTER_GPUS": "4"}, FOUR)[:2] == ("gloo", "cpu")
    assert choose_backend(None, {}, CPU) == ("gloo", "cpu", None)
    assert choose_backend("nccl", {}, CPU).notice == "no GPU was asked for: gloo takes the place of nccl"


@pytest.mark.parametrize(
    ("torch", "words", "hint"),
    [(CPU, "is built for the CPU only", "install a torch"), (BLIND, "sees none on this host", "--nv")],
)
@pytest.mark.parametrize("wanted", [None, "nccl"])
def test_gpus_that_were_asked_for_and_are_not_seen_stop_the_start(
    wanted: str | None, torch: Torch, words: str, hint: str
) -> None:
    with pytest.raises(WireupError) as refused:
        choose_backend(wanted, {"SLURM_JOB_GPUS": "0,1"}, torch)
    assert "SLURM_JOB_GPUS=0,1" in refused.value.message
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")


def test_gpus_without_nccl_stop_the_start() -> None:
    with pytest.raises(WireupError, match="has no NCCL"):
        choose_backend(None, {}, FOUR._replace(collectives=False))


def test_each_rank_takes_its_own_gpu() -> None:
    assert [gpu_index(local_rank, 4, "a") for local_rank in range(4)] == [0, 1, 2, 3]
    assert [gpu_index(local_rank, 1, "a") for local_rank in range(4)] == [0, 0, 0, 0]
    with pytest.raises(WireupError, match="local rank 2 on a has no GPU of its own: torch sees 2"):
        gpu_index(2, 2, "a")


@pytest.mark.parametrize("version", ["2.3.0", "2.6.0", "2.7.1", "2.13.0+cpu", "3.0"])
def test_an_eager_start_where_torch_can(version: str) -> None:
    assert eager_is_safe(version)


@pytest.mark.parametrize("version", ["2.2.2", "2.6.1", "2.7.0+cu128", "unknown"])
def test_no_eager_start_where_torch_hangs(version: str) -> None:
    assert not eager_is_safe(version)
