"""What a cluster takes, by its own word: which partition, which nodes, what is refused and what would do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.policy.cluster import choose_partition, refusals_here, why_not_default
from muster.policy.given import gpus_of, is_slice, kind_for
from muster.policy.parts import broken_together
from muster.policy.rules import Ask
from muster.policy.waiting import rules_waited_for, why_not_anywhere, why_not_now
from muster.slurm.cluster_answers import ask_accounts, with_accounts
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
            partition_line("gpu-test", MaxTime="00:20:00", TotalNodes="1"),
            partition_line("scavenge", MaxTime="7-00:00:00", TotalNodes="20", PreemptMode="REQUEUE"),
            partition_line("private", AllowAccounts="rich", TotalNodes="20"),
        ],
        [
            kind_line("batch", 100, 48),
            kind_line("gpu", 20, 64, "gpu:a100:4", "a100,ib"),
            kind_line("gpu-debug", 2, 64, "gpu:a100:4", "a100"),
            kind_line("gpu-test", 1, 64, "gpu:a100:4", "a100"),
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
        (Ask(gpus_per_node=4, time_s=600), True, "gpu-test"),
        (Ask(gpus_per_node=4, time_s=1500), True, "gpu-debug"),
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
        "it takes 2 nodes with 4 GPUs for 01:00:00; batch, the default partition, does not: batch has no GPUs"
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
        ({"partition": "gpu,gpu-debug", "nodes": 9, "gpus_per_node": 4}, "none of gpu,gpu-debug takes 9 nodes with 4"),
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
        Ask(partition="gpu-debug,gpu", nodes=8, gpus_per_node=4),
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
    rows: str, qos: str = "normal||||||cluster|", enforced: str = "associations,limits,qos", **words: str
) -> ClusterFacts:
    """Two partitions, and accounting; a QOS without flags denies what is over its limits."""
    qos = "\n".join(
        row if "flags=" in row else f"{row}{' ' if ';' in row else ';'}flags=DenyOnLimit" for row in qos.splitlines()
    )
    return cluster(
        [partition_line("main", Default="YES", **words), partition_line("other")],
        [kind_line("main", 4, 64, gres="gpu:a100:4"), kind_line("other", 4, 64, gres="gpu:a100:4")],
        accounting_text(rows, qos),
        AccountingStorageEnforce=enforced,
    )


@pytest.mark.parametrize(
    ("plugin", "version", "nodes", "flags", "rule", "says"),
    [
        ("block", "24.11.5", 4, {"segment": "2"}, None, ""),
        ("block", "24.11.5", 4, {"segment": "3"}, "segment", "--segment=3 does not divide 4 nodes"),
        ("tree", "24.11.5", 3, {"segment": "2"}, None, ""),
        ("default", "24.11.5", 3, {"segment": "2"}, None, ""),
        ("tree", "24.11.5", 4, {"switches": "1"}, None, ""),
        ("block", "24.11.5", 4, {"switches": "1"}, None, ""),
        ("block", "24.11.5", 4, {"segment": "0"}, None, ""),
        ("block", "25.11.7", 2, {"segment": "4"}, "segment", "--segment=4 does not divide 2 nodes"),
        ("block", "26.05.0", 2, {"segment": "4"}, None, ""),
        ("block", "26.05.0", 6, {"segment": "4"}, "segment", "--segment=4 does not divide 6 nodes"),
    ],
)
def test_a_flag_about_blocks_is_judged_where_the_cluster_has_blocks(
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
    assert refusal.message == "main is closed to the account chem, which pays in other only"
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
    qos = "short|00:30:00|node=2,gres/gpu=4|||||\nnormal||||||cluster|"
    known = accounts("chem|chem||short,normal|short", qos)
    messages = [refusal.message for refusal in refusals_here(known, Ask(nodes=3, gpus_per_node=2, time_s=HOUR))]
    assert messages == [
        "01:00:00, but the QOS short allows 00:30:00",
        "3 nodes, but the QOS short allows a job 2",
        "3 × 2 = 6 GPUs, but the QOS short allows a job 4",
    ]
    assert list(refusals_here(known, Ask(nodes=3, qos="normal"))) == []


def test_the_qos_of_a_partition_holds_for_all_its_jobs() -> None:
    known = accounts("chem|chem||normal|", "gpuq|00:30:00|||gres/gpu=2|||\nnormal||||||cluster|", QoS="gpuq")
    messages = [refusal.message for refusal in refusals_here(known, Ask(gpus_per_node=4, time_s=60))]
    assert messages == ["1 × 4 = 4 GPUs, but the QOS gpuq allows a user 2"]
    assert list(refusals_here(known, Ask(partition="other", gpus_per_node=4))) == []


@pytest.mark.parametrize(
    ("limits", "bent", "part"),
    [
        ("mintres=node=64", {}, "2 nodes, but the QOS house is for 64 or more"),
        ("mintres=node=2", {}, ""),
        ("mintres=gres/gpu=9", {}, "2 × 4 = 8 GPUs, but the QOS house is for 9 or more"),
        ("grptres=node=1", {}, "2 nodes, but the QOS house allows all jobs together 1"),
        ("grptres=node=2,mem=1G", {}, ""),
        ("maxtrespu=node=1", {}, "2 nodes, but the QOS house allows a user 1"),
        ("maxtrespa=gres/gpu:a100=4", {"gpu_type": "a100"}, "2 × 4 = 8 GPUs, but the QOS house allows an account 4"),
        ("maxtrespa=gres/gpu:h100=4", {"gpu_type": "a100"}, ""),
        ("maxtres=cpu=15", {"cpus_per_task": 2}, "16 CPUs, but the QOS house allows a job 15"),
        ("maxtres=cpu=16", {"cpus_per_task": 2}, ""),
        ("maxtrespernode=gres/gpu=2", {}, "4 GPUs per node, but the QOS house allows a node 2"),
        ("maxtrespernode=cpu=8", {"cpus_per_task": 2}, ""),
        ("maxsubmitpu=0", {}, "one job, but the QOS house takes 0 now (maxsubmitpu)"),
        ("maxsubmitpu=1", {}, ""),
        ("maxjobspu=0", {}, ""),
    ],
)
def test_each_limit_of_a_qos_is_held_against_the_job(limits: str, bent: dict[str, Any], part: str) -> None:
    words: dict[str, Any] = {"nodes": 2, "gpus_per_node": 4, "ntasks_per_node": 4, "gpu_type": "a100", **bent}
    known = accounts("chem|chem||normal|", f"house|;{limits}\nnormal|", QoS="house")
    found = list(refusals_here(known, Ask(**words)))
    assert [each.message for each in found] == ([part] if part else [])
    assert all(each.queue == "house" and each.key == "qos.house" for each in found)


@pytest.mark.parametrize(
    ("limits", "hint"),
    [
        ("maxtres=node=3", "-N 2"),
        ("maxtres=node=1", "fewer --spares"),
        ("maxtrespu=gres/gpu=8", "-g 2"),
        ("maxtres=gres/gpu=3", "3 at most on all nodes together"),
        ("grptres=gres/gpu=0", "another account (-A) or QOS (-q)"),
        ("maxtres=cpu=32", "-c 2"),
        ("maxtres=cpu=12", "12 at most on all nodes together"),
        ("maxtrespernode=gres/gpu=3", "-g 3"),
        ("maxtrespernode=cpu=12", "-c 3"),
        ("mintres=node=8", "-N 7"),
        ("mintres=gres/gpu=32", "32 or more, or another QOS (-q)"),
        ("maxtres=mem=3G", "3G at most on all nodes together"),
        ("mintres=mem=5G", "5G or more, or another QOS (-q)"),
        ("maxtrespernode=cpu=3", "3 at most on each node"),
        ("maxtrespernode=gres/gpu=0", "omit -g"),
    ],
)
def test_the_hint_at_a_limit_can_be_typed(limits: str, hint: str) -> None:
    known = accounts("chem|chem||normal|", f"normal|;{limits}")
    ask = Ask(nodes=4, spares=1, gpus_per_node=4, ntasks_per_node=4, cpus_per_task=4, mem=Memory.parse("1G"))
    assert [each.hint for each in refusals_here(known, ask)] == [hint]


@pytest.mark.parametrize(
    ("account", "qos", "waits"),
    [
        ("", "normal|;maxtres=node=1 flags=NoReserve", ["2 nodes, but the QOS normal allows a job 1"]),
        ("", "normal|;maxwall=00:05:00 flags=NoReserve", ["01:00:00, but the QOS normal allows 00:05:00"]),
        ("", "normal|;mintres=node=3 flags=NoReserve", ["2 nodes, but the QOS normal is for 3 or more"]),
        (";maxtres=node=1", "normal|;flags=NoReserve", ["2 nodes, but your account chem allows a job 1"]),
        (";maxtres=node=1", "normal|;flags=DenyOnLimit", []),
        (";maxjobs=0", "normal|;flags=DenyOnLimit", ["one job, but your account chem runs 0 now (maxjobs)"]),
        (";maxsubmit=0", "normal|;flags=NoReserve", []),
        (
            "",
            "normal|;maxtresmins=cpu=119 flags=NoReserve",
            ["2 CPUs × 60 minutes = 120, but the QOS normal allows a job 119"],
        ),
        ("", "normal|;maxtresmins=cpu=120 flags=NoReserve", []),
        ("", "normal|;maxtres=mem=3G flags=NoReserve", ["2 × 2G of memory, but the QOS normal allows a job 3G"]),
        ("", "normal|;maxtres=mem=4G flags=NoReserve", []),
    ],
)
def test_a_limit_that_slurm_does_not_deny_is_waited_for(account: str, qos: str, waits: list[str]) -> None:
    # each was asked of 22.05: pending with its reason, or refused by sbatch
    known = accounts(f"chem|chem||normal|{account}", qos)
    words: dict[str, Any] = {"nodes": 2, "time_s": HOUR, "mem": Memory.parse("2G")}
    assert waiting(known, **words) == [f"the job waits: {text}" for text in waits]
    refused = [each.rule for each in refusals_here(known, Ask(**words))]
    assert bool(refused) is (account != "" and not waits)


_MINUTES = "2 CPUs × 60 minutes = 120"


@pytest.mark.parametrize(
    ("dept", "qos", "enforced", "waits", "refused"),
    [
        ("node=1|||||", "", "limits", "2 nodes, but the account dept allows all jobs together 1", ""),
        ("node=1|||||", "DenyOnLimit", "limits", "", "2 nodes, but the account dept allows all jobs together 1"),
        ("node=2|||||", "", "limits", "", ""),
        ("node=1|||||", "", "associations", "", ""),
        ("gres/gpu=1|||||", "", "limits", "2 × 1 = 2 GPUs, but the account dept allows all jobs together 1", ""),
        ("|cpu=0||||", "", "limits", f"{_MINUTES}, but the account dept allows all jobs together 0", ""),
        ("|cpu=1||||", "", "limits", "", ""),
        (
            "|cpu=119||||",
            "",
            "limits,safe",
            f"{_MINUTES}, but the account dept allows all jobs together 119",
            "",
        ),
        ("|cpu=120||||", "", "limits,safe", "", ""),
        (
            "|cpu=119||||",
            "DenyOnLimit",
            "limits",
            "",
            f"{_MINUTES}, but the account dept allows all jobs together 119",
        ),
        ("|cpu=120||||", "DenyOnLimit", "limits", "", ""),
        (
            *("|||00:59:00||", "DenyOnLimit", "limits", ""),
            "01:00:00, but the account dept allows all jobs together 00:59:00",
        ),
        ("||||0|", "DenyOnLimit", "limits", "one job, but the account dept runs 0 now (grpjobs)", ""),
        ("||||1|", "", "limits", "", ""),
        ("|||||0", "", "limits", "", "one job, but the account dept takes 0 now (grpsubmit)"),
        ("||cpu=119|||", "", "limits", f"{_MINUTES}, but the account dept allows all running jobs together 119", ""),
        ("||cpu=120|||", "", "limits", "", ""),
        ("|||00:00:00||", "", "limits", "01:00:00, but the account dept allows all jobs together 00:00:00", ""),
        ("|||00:59:00||", "", "limits", "", ""),
        ("|||00:59:00||", "", "limits,safe", "01:00:00, but the account dept allows all jobs together 00:59:00", ""),
        ("mem=3G|||||", "", "limits", "2 × 2G of memory, but the account dept allows all jobs together 3G", ""),
    ],
)
def test_each_account_above_the_users_holds_a_job_to_its_own_limits(
    dept: str, qos: str, enforced: str, waits: str, refused: str
) -> None:
    # each was asked of 22.05, but for those with `safe` and `mem`
    tree = f"sacctmgr: show assoc\nroot|||||||\ndept|root|{dept}\nchem|dept|node=9|||||\nother|root|node=0|||||\n"
    known = tree_of(accounts("chem|chem||normal|", f"normal|;flags=NoReserve,{qos}", enforced), tree)
    words: dict[str, Any] = {"nodes": 2, "gpus_per_node": 1, "time_s": HOUR, "mem": Memory.parse("2G")}
    assert waiting(known, **words) == ([f"the job waits: {waits}"] if waits else [])
    assert [each.message for each in refusals_here(known, Ask(**words))] == ([refused] if refused else [])


def test_of_an_account_and_those_above_it_each_limit_counts_that_no_qos_sets() -> None:
    tree = "root||node=2|||||\nchem|root|node=1|||||\n"
    for qos, limits in (("flags=DenyOnLimit", [3, 1, 2]), ("flags=DenyOnLimit grptres=node=9", [])):
        known = tree_of(accounts("chem|chem||normal|;grptres=node=3", f"normal|;{qos}"), tree)
        assert [each.limit for each in refusals_here(known, Ask(nodes=4))] == limits
    unshared = msgspec.structs.replace(known, shares_memory=False)
    above = tree_of(unshared, "chem|root|mem=1G|||||\n")
    assert list(refusals_here(above, Ask(mem=Memory.parse("2G")))) == [], "memory that is not given out is not counted"


def test_a_job_without_a_time_is_held_to_what_all_jobs_may_use_by_its_partitions_time() -> None:
    def told(limits: str, **words: str) -> list[str]:
        known = accounts("chem|chem||normal|", f"normal||||||cluster|;flags=None {limits}", **words)
        return waiting(known, cpus_per_task=2)

    over = "the job waits: 2 CPUs × 60 minutes = 120, where no time is asked for, but the QOS normal allows all running"
    assert [each.startswith(over) for each in told("grptresrunmins=cpu=119", MaxTime="60")] == [True]
    assert told("grptresrunmins=cpu=120", MaxTime="60") == []
    assert told("grptresrunmins=cpu=119", MaxTime="60", DefaultTime="59") == []
    assert len(told("grptresmins=cpu=0")) == len(told("grpwall=0")) == 1, "a limit of 0 needs no time"
    assert told("maxtresmins=cpu=1", MaxTime="60") == told("maxwall=1", MaxTime="60") == [], "Slurm fits the time to it"


def test_a_job_whose_partition_is_not_known_waits_for_what_holds_in_each() -> None:
    known = accounts(
        "chem|chem||normal|;maxjobs=0", "house|;maxtres=node=1 flags=NoReserve\nnormal|;flags=NoReserve", QoS="house"
    )
    routed = msgspec.structs.replace(known, routes=True)
    assert why_not_anywhere(routed, Ask(nodes=2)) == [
        "the job waits: one job, but your account chem runs 0 now (maxjobs)"
    ]
    assert len(why_not_anywhere(routed, Ask(nodes=2, partition="main,gone"))) == 2
    assert why_not_anywhere(msgspec.structs.replace(known, partitions=()), Ask()) == []


def tree_of(known: ClusterFacts, answer: str) -> ClusterFacts:
    return with_accounts(known, ask_accounts("tinker").read(answer))


def test_a_limit_that_any_qos_of_the_job_denies_is_refused() -> None:
    qos = "house|;maxtres=node=1 flags=NoReserve\nnormal|;flags=DenyOnLimit"
    known = accounts("chem|chem||normal|", qos, QoS="house")
    assert [each.rule for each in refusals_here(known, Ask(nodes=2))] == ["nodes-max"]
    assert waiting(known, nodes=2) == []


@pytest.mark.parametrize(
    ("words", "bent", "says"),
    [
        ({"MaxCPUsPerNode": "2"}, {"cpus_per_task": 3}, "3 CPUs per node, but a job has 2 on a node of main"),
        ({"MaxCPUsPerNode": "2"}, {"cpus_per_task": 2}, ""),
        # 22.05 and 24.11 refuse it all the same: --overcommit helps a job that says --ntasks alone
        ({}, {"ntasks_per_node": 65, "flags": {"overcommit": None}}, "65 CPUs per node, but a job has 64"),
        (
            {"MaxMemPerCPU": "100"},
            {"mem": Memory.parse("6401M")},
            "--mem 6401M, but main gives a job 6400M of a node, 100 MiB for each of 64 CPUs (MaxMemPerCPU)",
        ),
        ({"MaxMemPerCPU": "100"}, {"mem": Memory.parse("6400M")}, ""),
        (
            {"JobDefaults": "DefMemPerGPU=9000"},
            {"gpus_per_node": 2},
            "a node of main has memory for 1: each brings 9000",
        ),
        ({"JobDefaults": "DefMemPerGPU=9000"}, {"gpus_per_node": 1}, ""),
        (
            {"JobDefaults": "DefMemPerGPU=9000"},
            {"gpus_per_node": 2, "mem": Memory.parse("1G")},
            "a node of main has memory for 1: each brings 9000",
        ),
        ({"JobDefaults": "DefMemPerGPU=9000"}, {"gpus_per_node": 2, "flags": {"mem-per-gpu": "1G"}}, ""),
        ({"AllocNodes": "login[2-3]"}, {}, "main takes jobs from the hosts login2, login3 only, and this is login1"),
        ({"AllocNodes": "login[1-3]"}, {}, ""),
        ({"AllocNodes": "login[1-"}, {}, ""),
    ],
)
def test_what_a_partition_gives_a_job_is_held_against_it(
    words: dict[str, str], bent: dict[str, Any], says: str
) -> None:
    known = msgspec.structs.replace(accounts("", **words), host="login1")
    messages = [each.message for each in refusals_here(known, Ask(**bent))]
    assert len(messages) == bool(says)
    assert all(says in message for message in messages), messages


@pytest.mark.parametrize("other", [{}, {"shape": "2:4:1"}, {"free_cpus": "7"}])
def test_of_nodes_that_differ_in_memory_the_largest_counts(other: dict[str, Any]) -> None:
    nodes = [kind_line("main", 8, gres="gpu:4"), kind_line("main", 2, gres="gpu:4", memory="65536", **other)]
    known = cluster([partition_line("main", Default="YES", JobDefaults="DefMemPerGPU=16384")], nodes)
    assert list(refusals_here(known, Ask(gpus_per_node=4, mem=Memory.parse("64G")))) == []
    over = [*refusals_here(known, Ask(mem=Memory.parse("65G"))), *refusals_here(known, Ask(gpus_per_node=5))]
    assert [each.rule for each in over] == ["mem-max", "gpus-max", "gpus-max"]
    larger = Memory.parse("64G")
    assert list(refusals_here(known, Ask(nodes=2, mem=larger))) == []
    (many,) = refusals_here(known, Ask(nodes=3, mem=larger))
    assert (many.message, many.hint) == (
        "3 nodes, but main has 2 with 64G of memory or more",
        "-N 2; no other takes this job: muster queues lists all",
    )
    unknown = cluster([partition_line("main", Default="YES")], [nodes[1], kind_line("main", 8, memory="1")])
    assert [each.rule for each in refusals_here(unknown, Ask(nodes=3, mem=larger))] == ["nodes-max"], "as 22.05 refuses"


def test_nodes_without_a_word_on_memory_have_1_mib_for_the_jobs_that_get_more() -> None:
    """Held against 22.05: a default of 3200 MiB is refused there, and a job that says 1 MiB runs."""
    nodes = [kind_line("main", 2, gres="gpu:4", memory="1"), kind_line("main", 2), kind_line("other", 1, gres="gpu:4")]
    partitions = [partition_line("main", Default="YES"), partition_line("other")]
    known = cluster(partitions, nodes, DefMemPerNode="3200")
    assert choose_partition(known, Ask(gpus_per_node=1)).partition == "other"
    (refusal,) = refusals_here(known, Ask(gpus_per_node=1))
    assert refusal.message == "3200 MiB a node, where nothing is asked for, but a node of main has 1M"
    assert refusal.hint == "--mem 1M; these take this job: other"
    assert choose_partition(known, Ask(gpus_per_node=1, mem=Memory.parse("1M"))).partition == "main"
    assert not list(refusals_here(known, Ask(gpus_per_node=1, flags={"mem-per-cpu": "1"})))
    of_cpu = cluster(partitions, nodes, DefMemPerCPU="100", SelectTypeParameters="CR_CORE")
    assert not list(refusals_here(of_cpu, Ask(gpus_per_node=1))), "memory is not given out there"


@pytest.mark.parametrize("shared", ["CR_CORE", "CR_CORE_MEMORY"])
def test_the_memory_of_a_job_on_a_node_has_a_limit(shared: str) -> None:
    """Held against 22.05: such a job waits for ever (MaxMemPerLimit); with EnforcePartLimits it is refused."""
    partitions = [partition_line("main", Default="YES", MaxMemPerNode="8000"), partition_line("other")]
    known = cluster(partitions, [kind_line("main", 2), kind_line("other", 2)], SelectTypeParameters=shared)
    for mem, words in (
        ("9000M", "--mem 9000M"),
        ("0", "all memory of a node (16G)"),
        (None, "all memory of a node (16G)"),
    ):
        (refusal,) = refusals_here(known, Ask(mem=Memory.parse(mem) if mem else None))
        assert refusal.message == f"{words}, but main gives a job 8000M of a node at most"
        assert refusal.hint == "--mem 8000M; these take this job: other"
    assert not list(refusals_here(known, Ask(mem=Memory.parse("8000M"))))
    assert choose_partition(known, Ask()).partition == "main", "the plan asks for as much as it may"


@pytest.mark.parametrize(("mib", "is_refused"), [(4800, False), (4801, True)])
def test_the_memory_of_a_cpu_may_be_limited_for_the_whole_cluster(mib: int, is_refused: bool) -> None:
    known = mixed(MaxMemPerCPU="100")
    assert bool(list(refusals_here(known, Ask(mem=Memory(mib), partition="batch")))) is is_refused


def test_a_qos_of_reservations_takes_no_other_job() -> None:
    known = accounts("chem|chem||normal|", "normal|;flags=DenyOnLimit,RequiresReservation")
    assert [each.message for each in refusals_here(known, Ask())] == ["the QOS normal takes jobs of a reservation only"]
    assert list(refusals_here(known, Ask(flags={"reservation": "course"}))) == []


def test_a_cluster_that_counts_no_gpus_refuses_none() -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4)])
    assert list(refusals_here(known, Ask(gpus_per_node=4))) == []


def test_of_limits_the_first_counts_as_slurm_has_it() -> None:
    def messages(
        *, flags: str = "", enforced: str = "limits", of_job: str = "maxtres=node=9", **words: str
    ) -> list[str]:
        qos = f"house|;maxtres=node=2\nfast|;flags=DenyOnLimit,{flags} {of_job}"
        known = accounts("chem|chem||fast|;maxtres=node=1 maxjobs=0", qos, enforced, **words)
        return [each.message for each in refusals_here(known, Ask(nodes=3))]

    assert messages(QoS="house") == ["3 nodes, but the QOS house allows a job 2"]
    assert messages(QoS="house", flags="OverPartQOS") == []
    assert messages() == []
    assert messages(of_job="maxwall=00:10:00") == ["3 nodes, but your account chem allows a job 1"]
    assert messages(QoS="house", enforced="associations") == []


def test_a_limit_of_an_account_in_another_partition_is_not_this_jobs() -> None:
    rows = "chem|chem|other|normal|;maxtres=node=1\nchem|chem|main|normal|;maxtres=node=3"
    known = accounts(rows)
    assert list(refusals_here(known, Ask(nodes=2, partition="main"))) == []
    assert [each.limit for each in refusals_here(known, Ask(nodes=2, partition="other"))] == [1]
    assert [each.limit for each in refusals_here(known, Ask(nodes=4, partition="main"))] == [3]


def test_the_association_of_the_partition_alone_limits_its_jobs() -> None:
    rows = ["chem|chem||normal|;maxtres=node=1", "chem|chem|main|normal|;maxtres=gres/gpu=8"]
    for known in (accounts("\n".join(rows)), accounts("\n".join(reversed(rows)))):
        assert list(refusals_here(known, Ask(nodes=2, partition="main"))) == []
        assert [each.limit for each in refusals_here(known, Ask(nodes=2, partition="other"))] == [1]


@pytest.mark.parametrize(("name", "limits"), [("other", []), ("Tinker", [1]), ("tinker", [1])])
def test_the_account_of_another_cluster_limits_nothing_here(name: str, limits: list[int]) -> None:
    rows = f"chem|chem||normal|;cluster={name} maxtres=node=1\nchem|chem||normal|;cluster=tinker maxtres=node=9"
    known = accounts(rows)
    assert [each.limit for each in refusals_here(known, Ask(nodes=2))] == limits


@pytest.mark.parametrize(
    ("qos", "says"),
    [
        ("normal|", ["one job, but your account chem takes 0 now (maxsubmit)"]),
        ("normal|;maxsubmitpu=9", []),
        ("normal|;maxsubmitpa=9", []),
        ("normal|;maxjobspu=9", ["one job, but your account chem takes 0 now (maxsubmit)"]),
    ],
)
def test_a_qos_that_counts_the_jobs_of_a_user_overrides_the_account(qos: str, says: list[str]) -> None:
    known = accounts("chem|chem||normal|;maxsubmit=0", qos)
    assert [each.message for each in refusals_here(known, Ask())] == says


def test_the_counts_of_a_relative_qos_are_per_cent_and_no_limit_here() -> None:
    limits = "maxtres=node=1,gres/gpu=2 maxwall=00:30:00 maxsubmitpu=0"
    known = accounts("chem|chem||normal|", f"normal|;{limits} flags=DenyOnLimit,Relative")
    rules = [each.rule for each in refusals_here(known, Ask(nodes=4, gpus_per_node=4, time_s=HOUR))]
    assert rules == ["time-max", "jobs-max"]


def test_unlimited_time_is_more_than_any_partition_allows() -> None:
    unlimited = Ask(partition="main", is_unlimited=True)
    known, limited = (accounts("chem|chem||normal|;maxwall=60", MaxTime=limit) for limit in ("UNLIMITED", "1:00:00"))
    (refusal,) = refusals_here(limited, unlimited)
    assert refusal.message == "unlimited time is asked for, but main allows 01:00:00"
    assert refusal.hint.startswith("--time 01:00:00")
    assert list(refusals_here(known, unlimited)) == []


def unsure(**config: str) -> ClusterFacts:
    """Four nodes with GPUs and two without: one drained, one that boots, and a reservation of two."""
    nodes = kind_line("main", 4, gres="gpu:4").splitlines()
    nodes[0] = nodes[0].replace("State=IDLE", "State=IDLE+DRAIN")
    nodes[1] = nodes[1].replace("State=IDLE", "State=DOWN+REBOOT_ISSUED")
    cpu_nodes = kind_line("main", 6).replace("State=IDLE", "State=DOWN*").splitlines()[4:]
    return cluster(
        [partition_line("main", Default="YES", MaxTime="01:00:00", TotalNodes="6"), partition_line("other")],
        [*nodes, *cpu_nodes, *([config.pop("reservation")] if "reservation" in config else [])],
        **config,
    )


def waiting(known: ClusterFacts, name: str = "main", **words: Any) -> list[str]:
    partition = known.partition(name)
    assert partition is not None
    return list(why_not_now(known, partition, Ask(**words)))


@pytest.mark.parametrize(
    ("state", "waits"), [("UP", []), ("DOWN", ["the job waits: main is down"]), ("DRAIN", []), ("INACTIVE", [])]
)
def test_a_job_waits_for_a_partition_that_is_down_and_one_that_takes_no_jobs_refuses(
    state: str, waits: list[str]
) -> None:
    known = cluster([partition_line("main", Default="YES", State=state)], [kind_line("main", 4)])
    assert waiting(known) == waits
    refused = [each.message for each in refusals_here(known, Ask(partition="main"))]
    assert refused == (["main takes no new jobs now"] if state in {"DRAIN", "INACTIVE"} else [])


def test_nodes_that_are_out_are_told_where_too_few_are_left() -> None:
    known = unsure()
    assert waiting(known, nodes=3, gpus_per_node=4) == []
    assert waiting(known, nodes=4, gpus_per_node=4) == [
        "the job waits: 1 of the 4 nodes of main that have what it asks for are drained or down"
    ]
    assert waiting(known, nodes=5, gpus_per_node=4) == [], "so many there are not: that is another sentence"
    assert waiting(known, nodes=4) == [
        "the job waits: 3 of the 6 nodes of main that have what it asks for are drained or down"
    ]
    assert waiting(known, "other", nodes=1) == [], "of its nodes nothing is known"


WORKS = (
    "ReservationName=works StartTime=2026-11-23T04:30:00 EndTime=2026-11-24T04:30:00 Duration=1-00:00:00 "
    "Nodes=main[1-2] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=16 "
    "Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)"
)


@pytest.mark.parametrize(
    ("line", "words", "is_told"),
    [
        (WORKS, {}, True),
        (WORKS, {"nodes": 1}, False),
        (WORKS, {"flags": {"reservation": "works"}}, False),
        # It is 03:52 there, and answers are kept for an hour.
        (WORKS.replace("T04:30:00 End", "T04:57:00 End"), {"time_s": 240}, False),
        (WORKS.replace("T04:30:00 End", "T04:57:00 End"), {"time_s": 360}, True),
        (WORKS.replace("T04:30:00 End", "T05:51:00 End"), {}, True),
        (WORKS.replace("T04:30:00 End", "T05:53:00 End"), {}, False),
        (WORKS.replace("CoreCnt=16", "CoreCnt=2"), {}, False),
        (WORKS.replace("Flags=", "Flags=MAGNETIC,"), {}, False),
        (WORKS.replace("main[1-2]", "(null)"), {}, False),
        (WORKS.replace("main[1-2]", "other[1-2]"), {}, False),
        (WORKS.replace("main[1-2]", "main[1-"), {}, False),
        (WORKS.replace("2026-11-23T04:30:00", "tomorrow"), {}, False),
    ],
)
def test_a_reservation_is_told_where_it_leaves_too_few_nodes(line: str, words: dict[str, Any], is_told: bool) -> None:
    told = waiting(unsure(reservation=line), **{"nodes": 2, "gpus_per_node": 4, **words})
    assert bool(told) is is_told
    start = line.partition("StartTime=")[2].partition(" ")[0]
    sentence = f"2 of the 3 nodes of main are reserved (works) from {start} to 2026-11-24T04:30:00"
    assert all(sentence in text for text in told), told


@pytest.mark.parametrize(
    ("qos", "closed"),
    [
        # a QOS of the partition's own name is no number of the partition
        ("main|;maxtrespu=gres/gpu=8 flags=NoReserve\nnormal|;flags=NoReserve", ""),
        ("main|;maxtrespu=gres/gpu=8\nnormal|", "4 × 4 = 16 GPUs, but the QOS main allows a user 8"),
        ("normal|;maxjobspu=0", ""),
    ],
)
def test_where_a_plugin_picks_the_partition_the_nodes_alone_refuse(qos: str, closed: str) -> None:
    known = accounts("chem|chem||normal|", qos, QoS="main")
    known = msgspec.structs.replace(known, routes=True, partitions=known.partitions[:1])
    assert list(refusals_here(known, Ask(nodes=4, gpus_per_node=4))) == []
    reasons = [why_not_default(known, ask) for ask in (Ask(nodes=4, gpus_per_node=4), Ask(nodes=5))]
    assert reasons == [closed, ""]
    without_default = tuple(msgspec.structs.replace(each, is_default=False) for each in known.partitions)
    for changed in ({"routes": False}, {"partitions": without_default}):
        assert why_not_default(msgspec.structs.replace(known, **changed), Ask(nodes=4, gpus_per_node=4)) == ""
    (refusal,) = refusals_here(known, Ask(nodes=5, gpus_per_node=4))
    assert "(5 nodes, but main has 4)" in refusal.message


def test_a_rule_that_a_job_waits_for_is_one_wherever_a_plugin_sends_it() -> None:
    known = accounts("chem|chem||normal|", "short|;maxjobspu=0\nnormal|", QoS="short")
    assert rules_waited_for(msgspec.structs.replace(known, routes=True), Ask()) == {"jobs-max"}
    assert rules_waited_for(known, Ask(partition="other")) == set()


def test_a_partition_of_other_groups_is_refused_and_not_chosen() -> None:
    known = accounts("", AllowGroups="admins")
    (refusal,) = refusals_here(known, Ask())
    assert "main is for the groups admins, and you are in none of them" in refusal.message
    (alone,) = refusals_here(msgspec.structs.replace(known, partitions=known.partitions[:1]), Ask())
    assert alone.hint == "no other takes this job: muster queues lists all"
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
    assert (
        "5 nodes, but main has 4 with 1 or more GPUs of type h100_1g.10gb" in next(refusals_here(known, many)).message
    )


def test_the_kind_of_node_is_one_that_has_what_is_asked() -> None:
    known = sliced()
    kind = kind_for(known, None, Ask(gpus_per_node=4))
    assert kind is not None
    assert kind.gpus == (("h100", 4),)
    kind = kind_for(known, "main", Ask(gpus_per_node=1))
    assert kind is not None
    assert kind.nodes == 4, "of those that fit, the one with most nodes"
    lines = [kind_line("main", 9, gres="gpu:4"), kind_line("main", 2, gres="gpu:8"), kind_line("main", 3)]
    three = cluster([partition_line("main", Default="YES")], lines)
    chosen = [kind_for(three, None, Ask(gpus_per_node=gpus)) for gpus in (0, 1, 4, 5, 8, 9)]
    assert [(kind.nodes, kind.gpu_count) for kind in chosen if kind] == [(3, 0), (9, 4), (9, 4), (2, 8), (2, 8), (2, 8)]


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


def test_cpus_that_slurm_does_not_tell_hold_nobody_to_none() -> None:
    known = cluster([partition_line("p", Nodes="p0", TotalNodes="1")], [kind_line("p", 1)])
    known = msgspec.structs.replace(known, kinds=tuple(msgspec.structs.replace(kind, cpus=0) for kind in known.kinds))
    assert not list(refusals_here(known, Ask(partition="p", nodes=1, ntasks_per_node=2)))


@pytest.mark.parametrize(
    ("limits", "said", "is_refused"),
    [
        ("maxtrespu=node=3", "2 + 2 = 4 nodes in the parts of the job, but the QOS house allows a user 3", False),
        ("maxtrespu=node=3 flags=DenyOnLimit", "2 + 2 = 4 nodes in the parts of the job, but", True),
        (
            "grptres=node=3",
            "2 + 2 = 4 nodes in the parts of the job, but the QOS house allows all jobs together 3",
            False,
        ),
        ("grptres=gres/gpu=9", "8 + 4 = 12 GPUs in the parts of the job", False),
        ("maxtrespu=node=1", "", False),  # each of them alone is told
        ("maxtres=node=3", "", False),
        ("maxtres=node=3 flags=DenyOnLimit", "2 + 2 = 4 nodes in the parts of the job", True),
        ("maxsubmitpu=1", "1 + 1 = 2 jobs in the parts of the job, but the QOS house takes 1 now (maxsubmitpu)", True),
        ("maxjobspu=1", "1 + 1 = 2 jobs in the parts of the job, but the QOS house runs 1 now (maxjobspu)", False),
        ("maxtrespu=node=4", "", False),
    ],
)
def test_the_parts_of_a_job_are_added_up_as_a_real_slurm_does(limits: str, said: str, is_refused: bool) -> None:
    """Each row but that of GPUs was asked of a lab: two parts of two nodes, queued with sbatch."""
    flags = "" if "flags=" in limits else " flags="
    known = accounts("chem|chem||normal|", f"house|;{limits}{flags}\nnormal|;flags=", QoS="house")
    found = list(broken_together(known, [Ask(nodes=2, gpus_per_node=4), Ask(nodes=2, gpus_per_node=2)]))
    assert [refusal.message[: len(said)] for _, refusal in found] == ([said] if said else [])
    assert [not bound.is_waited_for for bound, _ in found] == ([is_refused] if said else [])


@pytest.mark.parametrize(
    ("size", "array", "part"),
    [
        ("1001", "1-1500", "highest number is 1500, but this cluster counts up to 1000 (MaxArraySize)"),
        ("1001", "1-1500:4%2", "highest number is 1497"),
        ("1001", "0-1000%10", ""),
        ("1001", "1001", "highest number is 1001"),
        ("0", "1-2", "takes no arrays"),
        ("1", "0-1", "highest number is 1, but this cluster counts up to 0"),
        ("", "1-1500", ""),
    ],
)
def test_an_array_beyond_the_highest_number_is_refused_before_it_is_queued(size: str, array: str, part: str) -> None:
    known = cluster([partition_line("main", Default="YES")], [kind_line("main", 4)], MaxArraySize=size)
    refusals = [each for each in refusals_here(known, Ask(flags={"array": array})) if each.rule == "array-max"]

    assert len(refusals) == bool(part)
    assert all(part in refusal.message for refusal in refusals)
