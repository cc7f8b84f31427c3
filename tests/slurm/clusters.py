"""Clusters as Slurm describes them, for tests: the words of its clients, by version.

`LAB` is what 22.05 printed in a lab. `OLD` follows scontrol of 17.11, `MIG` 23.11: written after their manual pages.
`OF_2017` is what scontrol printed at a cluster in August 2017 (notes of a user of GSI's), on one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from muster.sites.schema import NodeKind, Profile
from muster.slurm.cluster_answers import (
    _QOS_COLUMNS,
    _USER_COLUMNS,
    read_accounting,
    read_controller,
    with_accounting,
)
from muster.slurm.cluster_facts import ClusterFacts
from muster.units import parse_memory_mib

_PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=32 TotalNodes=4 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
)


def partition_line(name: str, **words: str) -> str:
    """The line of `scontrol --oneliner show partition` for a partition; `words` replace, or add to, its words."""
    pairs = dict(word.split("=", 1) for word in _PARTITION.format(name=name).split())
    return " ".join(f"{key}={value}" for key, value in {**pairs, **words}.items())


def config_text(**words: str) -> str:
    """What `scontrol show config` prints, as far as it is read."""
    pairs = {
        "AccountingStorageEnforce": "none",
        "AccountingStorageType": "accounting_storage/none",
        "ClusterName": "tinker",
        "DefMemPerNode": "UNLIMITED",
        "JobRequeue": "1",
        "KillOnBadExit": "0",
        "MpiParams": "(null)",
        "PreemptMode": "OFF",
        "PreemptType": "preempt/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CORE_MEMORY",
        "SLURM_VERSION": "22.05.8",
        "TopologyPlugin": "topology/none",
        **words,
    }
    lines = "".join(f"{key:<24}= {value}\n" for key, value in pairs.items())
    return f"Configuration data as of 2026-11-23T03:52:42\n{lines}\nSlurmctld(primary) at login is UP\n"


def controller_text(*partitions: str, nodes: Sequence[str] = (), **config: str) -> str:
    """What one `scontrol` prints for its commands: readline repeats each of them behind its prompt."""
    lines = "".join(f"{line}\n" for line in partitions)
    node_lines = "".join(f"{line}\n" for line in nodes)
    text = f"scontrol: show config\n{config_text(**config)}\nscontrol: show partition\n{lines}"
    return f"{text}scontrol: show node\n{node_lines}scontrol: quit\n"


def kind_line(
    partition: str, nodes: int, cpus: int = 8, gres: str = "(null)", features: str = "(null)", **more: str
) -> str:
    """The lines of `scontrol --oneliner show node` for nodes that look alike; `shape`: sockets, cores, threads."""
    sockets, cores, threads = more.get("shape", f"1:{cpus}:1").split(":")
    line = (
        f"NodeName=NAME Arch=x86_64 CoresPerSocket={cores}  CPUAlloc=0 CPUEfctv={more.get('free_cpus', cpus)} "
        f"CPUTot={cpus} CPULoad=0.01 AvailableFeatures={features} ActiveFeatures={features} Gres={gres} "
        f"NodeAddr=NAME NodeHostName=NAME Version=22.05.8 OS=Linux 6.1 #1 SMP RealMemory={more.get('memory', '16384')} "
        f"AllocMem=0 FreeMem=N/A Sockets={sockets} Boards=1 State=IDLE ThreadsPerCore={threads} TmpDisk=0 Weight=1 "
        f"Owner=N/A MCS_label=N/A Partitions={partition}  BootTime=None Reason=Gres=gpu:99 is what it said"
    )
    return "\n".join(line.replace("NAME", f"{partition}{number}") for number in range(nodes))


_COLUMNS_OF_TESTS = ("name", "maxwall", "maxtres", "mintres", "maxtrespu", "preempt", "preemptmode", "flags")


def accounting_text(user_rows: str, qos_rows: str = "normal||||||cluster|") -> str:
    """What one `sacctmgr` prints for both commands; rows are short: cells behind a `;` are COLUMN=VALUE."""
    users = [_row(_USER_COLUMNS, _USER_COLUMNS, row) for row in user_rows.splitlines()]
    qos = [_row(_QOS_COLUMNS, _COLUMNS_OF_TESTS, row) for row in qos_rows.splitlines()]
    lines = ["sacctmgr: show user ada withassoc", *users, "", "sacctmgr: show qos", *qos, "", "sacctmgr: quit"]
    return "\n".join(lines) + "\n"


def _row(columns: Sequence[str], written: Sequence[str], row: str) -> str:
    text, _, more = row.partition(";")
    cells = dict(zip(written, text.split("|"))) | dict(cell.split("=", 1) for cell in more.split())
    return "|".join(cells.get(name, "") for name in columns)


def cluster(
    partitions: list[str],
    kinds: list[str],
    accounting: str | None = None,
    **config: str,
) -> ClusterFacts:
    """The value of these answers."""
    known = replace(read_controller(controller_text(*partitions, nodes=kinds, **config)), user_groups=("ada",))
    answer = None if accounting is None else read_accounting(accounting)
    return known if answer is None else with_accounting(known, answer)


def like_site(profile: Profile, **changes: dict[str, str]) -> ClusterFacts:
    """The cluster that a profile describes; `changes`: other words for one of its partitions."""
    lines, kinds = [], []
    for name, queue in profile.partitions.items():
        own_words = {"Default": "YES" if queue.default else "NO"}
        if queue.time_max:
            own_words["MaxTime"] = queue.time_max
        if queue.nodes_max:
            own_words["MaxNodes"] = str(queue.nodes_max)
        lines.append(partition_line(name, TotalNodes="9999", **{**own_words, **changes.get(name, {})}))
        kind = queue.node or next((key for key, node in profile.nodes.items() if queue.gpus in {None, node.gpus}), None)
        if kind is not None:
            kinds.append(row_of(profile, name, profile.nodes[kind]))
    return cluster(lines, kinds)


def row_of(profile: Profile, partition: str, node: NodeKind) -> str:
    """The nodes of a kind of a profile."""
    threads = (node.threads_per_core or 1) if "threads" in {profile.request.cpus, profile.request.slurm_cpus} else 1
    cores = node.cores or 8
    gpu_type = node.gpu_type or profile.request.gpu_type
    gres = f"gpu:{gpu_type}:{node.gpus}" if gpu_type else f"gpu:{node.gpus}"
    memory = parse_memory_mib(node.memory_usable) if node.memory_usable else node.memory_mib or 1 << 20
    shape = f"1:{cores}:{threads}"
    return kind_line(partition, 64, cores * threads, gres if node.gpus else "(null)", shape=shape, memory=str(memory))


# scontrol of 17.11 knows neither JobDefaults nor PriorityTier's neighbours, and calls the words of memory as today.
OLD = (
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=16 MaxTime=2-00:00:00 "
    "MinNodes=1 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=c[001-100] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=2400 TotalNodes=100 "
    "SelectTypeParameters=NONE DefMemPerCPU=2048 MaxMemPerNode=UNLIMITED"
)
# Before 16.05 sharing was called Shared, and priority Priority.
OLDER = (
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES DefaultTime=NONE "
    "DisableRootJobs=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=1 LLN=NO "
    "MaxCPUsPerNode=UNLIMITED Nodes=c[001-100] Priority=7 RootOnly=NO ReqResv=NO Shared=EXCLUSIVE PreemptMode=OFF "
    "State=UP TotalCPUs=2400 TotalNodes=100 SelectTypeParameters=N/A DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
)
OF_2017 = (
    "PartitionName=debug AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO DefaultTime=00:02:00 "
    "DisableRootJobs=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=00:20:00 MinNodes=1 LLN=NO "
    "MaxCPUsPerNode=UNLIMITED Nodes=lxbk0[195-200],lxlcsc0001 Priority=1 RootOnly=NO ReqResv=NO Shared=NO "
    "PreemptMode=OFF State=UP TotalCPUs=280 TotalNodes=7 SelectTypeParameters=N/A DefMemPerCPU=2048 MaxMemPerCPU=3072"
)
