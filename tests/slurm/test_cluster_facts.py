"""What Slurm says of a cluster is read from the words of its clients, of every version."""

from __future__ import annotations

import pytest

from muster.slurm.cluster_answers import read_accounting, read_controller, read_kinds
from muster.slurm.cluster_facts import Association
from slurm.clusters import (
    OF_2017,
    OLD,
    OLDER,
    accounting_text,
    cluster,
    config_text,
    controller_text,
    kind_line,
    partition_line,
)


def test_the_prompts_of_scontrol_are_no_part_of_its_answers() -> None:
    answer = read_controller(controller_text(partition_line("main", Default="YES"), ClusterName="tinker"))
    assert answer.name == "tinker"
    assert [partition.name for partition in answer.partitions] == ["main"]


def test_each_word_of_a_partition_is_read() -> None:
    line = partition_line(
        "gpu",
        AllowAccounts="chem,phys",
        AllowGroups="users",
        AllowQos="normal",
        DenyQos="slow",
        QoS="gpuq",
        MaxTime="2-00:00:00",
        DefaultTime="00:30:00",
        MaxNodes="8",
        MinNodes="2",
        PriorityTier="10",
        PreemptMode="REQUEUE",
        OverSubscribe="EXCLUSIVE",
        ReqResv="YES",
        RootOnly="YES",
        State="DRAIN",
        MaxCPUsPerNode="24",
        JobDefaults="DefCpuPerGPU=6,DefMemPerGPU=64000",
        DefMemPerCPU="4000",
        MaxMemPerCPU="8000",
    )
    (gpu,) = read_controller(controller_text(line)).partitions
    assert (gpu.accounts, gpu.groups, gpu.qos, gpu.qos_denied, gpu.own_qos) == (
        ("chem", "phys"),
        ("users",),
        ("normal",),
        ("slow",),
        "gpuq",
    )
    assert (gpu.time_max_s, gpu.time_default_s, gpu.nodes_max, gpu.nodes_min, gpu.priority_tier) == (
        172800,
        1800,
        8,
        2,
        10,
    )
    assert (gpu.preempt_mode, gpu.is_exclusive, gpu.needs_reservation, gpu.only_root) == ("REQUEUE", True, True, True)
    assert (gpu.state, gpu.takes_jobs, gpu.is_default) == ("DRAIN", False, False)
    assert (gpu.cpus_per_node_max, gpu.cpus_per_gpu, gpu.memory_per_gpu_mib) == (24, 6, 64000)
    assert (gpu.memory_per_cpu_mib, gpu.memory_per_cpu_max_mib, gpu.memory_per_node_max_mib) == (4000, 8000, None)


@pytest.mark.parametrize(
    ("line", "exclusive", "tier", "memory"), [(OLD, False, 1, 2048), (OLDER, True, 7, None)], ids=["17.11", "15.08"]
)
def test_the_words_of_old_versions_are_read(line: str, exclusive: bool, tier: int, memory: int | None) -> None:
    (batch,) = read_controller(f"{config_text()}\n{line}\n").partitions
    assert (batch.is_default, batch.nodes, batch.is_exclusive, batch.priority_tier) == (True, 100, exclusive, tier)
    assert batch.memory_per_cpu_mib == memory


def test_what_a_cluster_of_2017_printed_is_read() -> None:
    (debug,) = read_controller(f"{config_text()}\n{OF_2017}\n").partitions
    assert (debug.time_max_s, debug.time_default_s, debug.nodes, debug.nodes_max) == (1200, 120, 7, None)
    assert (debug.memory_per_cpu_mib, debug.memory_per_cpu_max_mib) == (2048, 3072)
    assert (debug.is_up, debug.is_exclusive, debug.priority_tier, debug.accounts) == (True, False, 1, None)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:4", (("", 4),)),
        ("gpu:a100:4(S:0-1)", (("a100", 4),)),
        ("gpu:h100:4,gpu:h100_1g.10gb:8", (("h100", 4), ("h100_1g.10gb", 8))),
        ("gpu:a100:no_consume:4", (("a100", 4),)),
        ("craynetwork:4,gpu:2,shard:8", (("", 2),)),
        ("(null)", ()),
        ("gpu", ()),
    ],
)
def test_gpus_are_read_by_type(gres: str, gpus: tuple[tuple[str, int], ...]) -> None:
    (kind,) = read_kinds(kind_line("main", 4, gres=gres))
    assert kind.gpus == gpus


def test_rows_that_differ_in_memory_or_features_are_one_kind() -> None:
    rows = [
        kind_line("main", 3, gres="gpu:4", features="rack1,a100", memory="16000"),
        kind_line("main", 2, gres="gpu:4", features="rack2,a100", memory="15000"),
        kind_line("main", 1, gres="gpu:8"),
    ]
    first, second = read_kinds("\n".join(rows))
    assert (first.nodes, first.memory_mib, first.features) == (5, 15000, ("rack1", "a100", "rack2"))
    assert second.nodes == 1


@pytest.mark.parametrize(
    ("cpus", "shape", "cores", "threads"),
    [(128, "2:32:2", 64, 2), (64, "2:32:2", 64, 1), (64, "1:64:1", 64, 1), (8, "1:4:2", 4, 2)],
)
def test_a_core_is_as_many_cpus_as_slurm_counts(cpus: int, shape: str, cores: int, threads: int) -> None:
    (kind,) = read_kinds(kind_line("main", 4, cpus, shape=shape))
    assert (kind.nodes, kind.cores, kind.threads) == (4, cores, threads)


def test_cores_and_memory_of_the_system_are_no_jobs() -> None:
    line = kind_line("main", 1, 128, shape="2:32:2", free_cpus="112", memory="256000") + " MemSpecLimit=6000"
    (kind,) = read_kinds(line)
    assert (kind.cpus, kind.cores, kind.threads, kind.memory_mib) == (112, 56, 2, 250000)


def test_a_node_of_two_partitions_is_in_both() -> None:
    kinds = read_kinds(kind_line("main,debug", 3, gres="gpu:4"))
    assert [(kind.partition, kind.nodes, kind.gpu_count) for kind in kinds] == [("main", 3, 4), ("debug", 3, 4)]


OLD_NODE = (
    "NodeName=c001 Arch=x86_64 CoresPerSocket=12 CPUAlloc=24 CPUErr=0 CPUTot=24 CPULoad=23.99 Features=haswell,ib "
    "Gres=gpu:2 NodeAddr=c001 NodeHostName=c001 Version=15.08 OS=Linux RealMemory=128000 AllocMem=0 "
    "FreeMem=1 Sockets=2 Boards=1 State=ALLOCATED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
    "Partitions=batch  BootTime=2016-01-01T00:00:00"
)


def test_a_node_of_an_old_version_is_read() -> None:
    (kind,) = read_kinds(OLD_NODE)
    assert (kind.partition, kind.cpus, kind.cores, kind.gpus, kind.features) == (
        "batch",
        24,
        24,
        (("", 2),),
        ("haswell", "ib"),
    )


def test_accounts_and_qos_are_told_apart_by_their_columns() -> None:
    text = accounting_text(
        "chem|chem||normal,gpu|gpu\nchem|phys|debug|normal|",
        "normal||||||cluster|\ngpu|1-00:00:00|cpu=64,gres/gpu=8,node=2|node=1|gres/gpu=16|normal,slow|requeue|DenyOnLimit",
    )
    answer = read_accounting(text)
    assert answer is not None
    assert answer.associations == (
        Association("chem", "", ("normal", "gpu"), "gpu", is_default=True),
        Association("phys", "debug", ("normal",), "", is_default=False),
    )
    normal, gpu = answer.qos
    assert (normal.limits, normal.preempts) == ({}, ())
    assert gpu.limits == {
        "maxwall": 86400,
        "maxtres:cpu": 64,
        "maxtres:gres/gpu": 8,
        "maxtres:node": 2,
        "mintres:node": 1,
        "maxtrespu:gres/gpu": 16,
    }
    assert (gpu.preempts, gpu.preempt_mode, gpu.flags) == (("normal", "slow"), "requeue", ("DenyOnLimit",))


def test_a_user_without_an_account_has_none_and_not_an_empty_one() -> None:
    for rows in ("", "chem||||"):
        answer = read_accounting(accounting_text(rows))
        assert answer is not None
        assert answer.associations == ()


def test_an_answer_without_a_row_is_none() -> None:
    assert read_accounting(accounting_text("", "")) is None
    assert read_accounting(accounting_text("chem|chem||normal|", "")) is not None


def test_what_accounting_enforces_is_known() -> None:
    known = cluster([partition_line("main")], [], AccountingStorageEnforce="associations,limits,qos")
    assert known.enforces == ("associations", "limits", "qos")
    assert cluster([partition_line("main")], [], AccountingStorageEnforce="none").enforces == ()
    assert cluster([partition_line("main")], [], AccountingStorageType="accounting_storage/slurmdbd").keeps_accounts
    assert not cluster([partition_line("main")], []).keeps_accounts
