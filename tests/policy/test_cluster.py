"""What a cluster takes, by its own word: which partition, which nodes, what is refused and what would do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.policy.cluster import choose_partition, gpus_of, is_slice, kind_for, refusals_here
from muster.policy.rules import Ask
from muster.slurm.cluster_facts import ClusterFacts
from muster.units import Memory
from slurm.clusters import accounting_text, cluster, kind_line, partition_line

HOUR = 3600


def mixed(**config: str) -> ClusterFacts:
    """A CPU partition, which is the default, one of GPUs, one for trials, one whose jobs others may end."""
    return cluster(
        [
            partition_line("batch", Default="YES", MaxTime="2-00:00:00", TotalNodes="100"),
            partition_line("gpu", MaxTime="1-00:00:00", TotalNodes="20", MaxNodes="8", PriorityTier="10"),
            partition_line("gpu-debug", MaxTime="00:30:00", TotalNodes="2"),
            partition_line("scavenge", MaxTime="7-00:00:00", TotalNodes="20", PreemptMode="REQUEUE"),
            partition_line("private", AllowAccounts="rich", TotalNodes="20"),
        ],
        [
            kind_line("batch", 100, 48),
            kind_line("gpu", 20, 64, "gpu:a100:4", "a100,ib"),
            kind_line("gpu-debug", 2, 64, "gpu:a100:4", "a100"),
            kind_line("scavenge", 20, 64, "gpu:a100:4", "a100,ib"),
            kind_line("private", 20, 64, "gpu:a100:4", "a100"),
        ],
        PreemptType="preempt/partition_prio",
        **config,
    )


@pytest.mark.parametrize(
    ("ask", "trial", "expected"),
    [
        (Ask(), False, "batch"),
        (Ask(gpus_per_node=4, time_s=HOUR), False, "gpu"),
        (Ask(gpus_per_node=4, time_s=600), True, "gpu-debug"),
        (Ask(gpus_per_node=4, time_s=HOUR), True, "gpu"),
        (Ask(nodes=9, gpus_per_node=4), False, "scavenge"),
        (Ask(gpus_per_node=4, time_s=48 * HOUR), False, "scavenge"),
        (Ask(gpus_per_node=4, account="rich"), False, "gpu"),
        (Ask(nodes=9, gpus_per_node=4, account="rich"), False, "private"),
        (Ask(nodes=200), False, None),
        (Ask(gpus_per_node=5), False, None),
        (Ask(cpus_per_task=49), False, None),
        (Ask(mem=Memory.parse("1T")), False, None),
    ],
)
def test_the_partition_that_takes_a_request(ask: Ask, trial: bool, expected: str | None) -> None:
    assert choose_partition(mixed(), ask, trial=trial).partition == expected


def test_the_choice_says_why_and_why_not_the_default() -> None:
    chosen = choose_partition(mixed(), Ask(nodes=2, gpus_per_node=4, time_s=HOUR))
    assert chosen.reason == (
        "it takes 2 nodes with 4 GPUs for 01:00:00; batch, the default partition, does not: it has no GPUs"
    )


def test_a_job_that_does_not_say_what_it_wants_goes_to_the_default() -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4, gres="gpu:4")])
    assert choose_partition(known, Ask(), any_nodes=True).is_default
    assert choose_partition(known, Ask()).partition is None


@pytest.mark.parametrize(
    ("bent", "part"),
    [
        ({"partition": "gpus"}, "this cluster has no partition gpus (its partitions: batch, gpu,"),
        ({"partition": "gpu,nope"}, "this cluster has no partition nope"),
        ({"partition": "gpu", "nodes": 21}, "21 nodes, but gpu has 20"),
        ({"partition": "private", "account": "poor"}, "private does not take the account poor"),
        (
            {"partition": "gpu", "gpus_per_node": 1, "gpu_type": "h100"},
            "gpu has no GPUs of type h100 (its types: a100)",
        ),
        ({"partition": "gpu", "gpus_per_node": 5, "gpu_type": "a100"}, "a node of gpu has 4"),
        ({"partition": "gpu", "constraint": "ib&h100"}, "no node of this cluster has the feature 'h100'"),
    ],
)
def test_what_is_refused_here(bent: dict[str, Any], part: str) -> None:
    found = list(refusals_here(mixed(), Ask(**bent)))
    assert any(part in refusal.message for refusal in found), found
    assert all(refusal.hint for refusal in found)


@pytest.mark.parametrize(
    "ask",
    [
        Ask(partition="gpu", gpus_per_node=4, gpu_type="a100", constraint="ib"),
        Ask(partition="gpu,scavenge", gpus_per_node=4),
        Ask(constraint="ib|nothing"),
        Ask(constraint="[rack1*2&rack2*1]"),
        Ask(partition="batch", nodes=100),
        Ask(account="anybody"),
        Ask(qos="any"),
    ],
)
def test_what_slurm_may_take_is_not_refused(ask: Ask) -> None:
    assert list(refusals_here(mixed(), ask)) == []


def accounts(
    rows: str, qos: str = "normal||||||cluster|", enforced: str = "associations,qos", **words: str
) -> ClusterFacts:
    return cluster(
        [partition_line("main", Default="YES", **words), partition_line("other")],
        [kind_line("main", 4, gres="gpu:4"), kind_line("other", 4, gres="gpu:4")],
        accounting_text(rows, qos),
        AccountingStorageEnforce=enforced,
    )


@pytest.mark.parametrize(
    ("plugin", "version", "nodes", "flags", "rule", "says"),
    [
        ("block", "24.11.5", 4, {"segment": "2"}, None, ""),
        ("block", "24.11.5", 4, {"segment": "3"}, "segment", "--segment=3 does not divide 4 nodes"),
        ("tree", "24.11.5", 4, {"segment": "2"}, "segment", "this cluster has topology/tree"),
        ("tree", "25.05.1", 4, {"segment": "2"}, None, ""),
        ("", "24.11.5", 4, {"segment": "2"}, None, ""),
        ("tree", "", 4, {"segment": "2"}, None, ""),
        ("tree", "24.11.5", 4, {"switches": "1"}, None, ""),
        ("block", "24.11.5", 4, {"switches": "1"}, "switches", "has no effect on this cluster"),
        ("block", "25.11.0", 4, {"switches": "1"}, None, ""),
        ("block", "24.11.5", 4, {"segment": "0"}, None, ""),
    ],
)
def test_flags_about_blocks_and_switches_are_for_clusters_that_have_them(
    plugin: str, version: str, nodes: int, flags: dict[str, str], rule: str | None, says: str
) -> None:
    here = msgspec.structs.replace(mixed(), topology=f"topology/{plugin}" if plugin else "", version=version)
    refused = list(refusals_here(here, Ask(nodes=nodes, flags=flags)))
    assert [each.rule for each in refused] == ([rule] if rule else [])
    assert all(says in each.message for each in refused)


def test_an_account_that_is_not_mine_is_refused_where_accounts_are_enforced() -> None:
    rows = "chem|chem||normal|\nchem|Phys||normal|"
    (refusal,) = refusals_here(accounts(rows), Ask(account="bio"))
    assert refusal.message == "the account bio is not yours on this cluster (yours: chem, Phys)"
    assert list(refusals_here(accounts(rows), Ask(account="phys"))) == [], "Slurm reads accounts in small letters"
    assert list(refusals_here(accounts(rows, enforced="none"), Ask(account="bio"))) == []
    assert list(refusals_here(accounts(""), Ask(account="bio"))) == [], "of a user without one nothing is known"


def test_an_account_of_one_partition_pays_there_only() -> None:
    known = accounts("chem|chem|other|normal|")
    (refusal,) = refusals_here(known, Ask(account="chem", partition="main"))
    assert refusal.message == "your account chem pays in other only"
    assert list(refusals_here(known, Ask(account="chem", partition="other"))) == []
    assert choose_partition(known, Ask(gpus_per_node=1)).partition == "other"


def test_a_qos_that_is_not_mine_or_not_there_is_refused() -> None:
    known = accounts("chem|chem||normal|", "normal||||||cluster|\nfast||||||cluster|")
    assert [refusal.message for refusal in refusals_here(known, Ask(qos="fast"))] == [
        "the QOS fast is not yours on this cluster (yours: normal)"
    ]
    assert "this cluster has no QOS quick" in next(refusals_here(known, Ask(qos="quick"))).message
    assert list(refusals_here(known, Ask(qos="normal"))) == []


def test_the_limits_of_the_qos_that_a_job_gets_unasked_hold() -> None:
    qos = "short|00:30:00|gres/gpu=4,node=2|||||\nnormal||||||cluster|"
    known = accounts("chem|chem||short,normal|short", qos)
    messages = [refusal.message for refusal in refusals_here(known, Ask(nodes=3, gpus_per_node=2, time_s=HOUR))]
    assert messages == [
        "01:00:00, but the QOS short allows 00:30:00",
        "3 nodes, but the QOS short allows 2",
        "3 × 2 = 6 GPUs, but the QOS short allows a job 4",
    ]
    assert list(refusals_here(known, Ask(nodes=3, qos="normal"))) == []


def test_the_qos_of_a_partition_holds_for_all_its_jobs() -> None:
    known = accounts("chem|chem||normal|", "gpuq|00:30:00|||gres/gpu=2|||\nnormal||||||cluster|", QoS="gpuq")
    messages = [refusal.message for refusal in refusals_here(known, Ask(gpus_per_node=4, time_s=60))]
    assert messages == ["1 × 4 = 4 GPUs, but the QOS gpuq allows a user 2"]
    assert list(refusals_here(known, Ask(partition="other", gpus_per_node=4))) == []


def test_a_partition_of_other_groups_is_refused_and_not_chosen() -> None:
    known = accounts("", AllowGroups="admins")
    (refusal,) = refusals_here(known, Ask())
    assert "main is for the groups admins, and you are in none of them" in refusal.message
    assert choose_partition(known, Ask(gpus_per_node=1)).partition == "other"


@pytest.mark.parametrize(
    ("words", "flags", "part"),
    [
        ({"State": "DRAIN"}, {}, "main takes no new jobs now"),
        ({"ReqResv": "YES"}, {}, "main takes jobs of a reservation only"),
        ({"RootOnly": "YES"}, {}, "main takes jobs of administrators only"),
    ],
)
def test_a_partition_that_takes_no_such_job(words: dict[str, str], flags: dict[str, str], part: str) -> None:
    (refusal,) = refusals_here(accounts("", **words), Ask(flags=flags))
    assert part in refusal.message
    assert "other" in refusal.hint


def test_a_reservation_opens_its_partition() -> None:
    assert list(refusals_here(accounts("", ReqResv="YES"), Ask(flags={"reservation": "course"}))) == []


def sliced() -> ClusterFacts:
    return cluster(
        [partition_line("main", Default="YES", TotalNodes="6")],
        [kind_line("main", 2, 64, "gpu:h100:4"), kind_line("main", 4, 64, "gpu:h100:2,gpu:h100_1g.10gb:14")],
    )


@pytest.mark.parametrize(
    ("name", "expected"), [("h100", False), ("h100_1g.10gb", True), ("1g.5gb", True), ("a100l", False)]
)
def test_slices_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_slice(name) is expected


def test_a_slice_is_taken_by_its_name_only() -> None:
    known = sliced()
    assert [gpus_of(kind, None) for kind in known.kinds] == [4, 2]
    assert [gpus_of(kind, "h100_1g.10gb") for kind in known.kinds] == [0, 14]
    assert list(refusals_here(known, Ask(gpus_per_node=3, gpu_type="h100_1g.10gb"))) == []
    many = Ask(nodes=5, gpus_per_node=1, gpu_type="h100_1g.10gb")
    assert "main has 4 such nodes" in next(refusals_here(known, many)).message


def test_the_kind_of_node_is_one_that_has_what_is_asked() -> None:
    known = sliced()
    kind = kind_for(known, None, Ask(gpus_per_node=4))
    assert kind is not None
    assert kind.gpus == (("h100", 4),)
    kind = kind_for(known, "main", Ask(gpus_per_node=1))
    assert kind is not None
    assert kind.nodes == 4, "of those that fit, the one with most nodes"


def test_a_job_without_gpus_gets_nodes_without_where_the_partition_has_both() -> None:
    known = cluster(
        [partition_line("all", Default="YES")], [kind_line("all", 4, gres="gpu:4"), kind_line("all", 1, 128)]
    )
    kind = kind_for(known, None, Ask())
    assert kind is not None
    assert kind.cpus == 128
    kind = kind_for(known, None, Ask(gpus_per_node=1))
    assert kind is not None
    assert kind.gpu_count == 4
