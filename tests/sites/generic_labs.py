"""Twenty clusters that no profile describes. The facts of nine were read in public files; eleven are made up.

Facts of: the slurm.conf of a cluster of 4 × 8 H800 (a page on its installation, 22.05), of a workstation with one GPU
(select/linear), of three nodes of 40 threads, of four nodes of 8 A100, of GoogleCloudPlatform/rad-lab
(modules/hpc_slurm/templates/slurm.conf.tpl), of vitomatics/test (profile/slurm-cluster1.sls), of eight nodes with
partitions for training and inference; what scontrol and sinfo showed of NHR@FAU's Helma and Alex (2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos


@dataclass(frozen=True)
class GenericLab:
    """A cluster, and how many GPUs a whole node of it has."""

    name: str
    spec: LabSpec
    gpus: int
    is_public: bool = False
    gives_steps_gpus: bool = True
    """Slurm 22.05 with select/linear refuses every step with GPUs, whoever starts it."""

    def __str__(self) -> str:
        return self.name


def hosts(prefix: str, count: int = 2, **words: object) -> HostGroup:
    return HostGroup(count=count, prefix=prefix, **{"gpus": 0, "memory_mib": 256_000, **words})  # type: ignore[arg-type]


def part(name: str, groups: Sequence[HostGroup], **options: str) -> LabPartition:
    """A partition; a * behind the name marks the default one, as sinfo does."""
    names = tuple(name for group in groups for name in group.names)
    return LabPartition(name.rstrip("*"), names, name.endswith("*"), tuple(options.items()))


MEMORY = (("SelectTypeParameters", "CR_Core_Memory"), ("EnforcePartLimits", "ALL"))


def lab(
    name: str,
    groups: Sequence[HostGroup],
    partitions: Sequence[LabPartition],
    *,
    gpus: int,
    is_public: bool = False,
    options: Sequence[tuple[str, str]] = MEMORY,
    accounts: Sequence[Account] = (),
    qos: Sequence[Qos] = (),
) -> GenericLab:
    spec = LabSpec(
        name=f"generic-{name}",
        cluster=name.replace("-", "_"),
        groups=tuple(groups),
        partitions=tuple(partitions),
        options=tuple(options),
        accounting=bool(accounts or qos),
        accounts=tuple(accounts) or (Account("lab"),),
        qos=tuple(qos),
    )
    return GenericLab(name, spec, gpus, is_public, ("SelectType", "select/linear") not in options)


def _public() -> list[GenericLab]:
    h800 = hosts(
        "dl", 4, cpus=128, threads_per_core=2, gpus=8, gpu_type="H800", memory_mib=1_031_000, features=("80G",)
    )
    first = HostGroup(count=1, prefix="dx", cpus=128, threads_per_core=2, gpus=8, gpu_type="H800", memory_mib=1_031_000)
    h100 = hosts("h11", cpus=128, gpus=4, gpu_type="h100", memory_mib=750_000)
    h200 = hosts("h22", cpus=128, gpus=4, gpu_type="h200", memory_mib=750_000)
    zen = hosts("c", cpus=384, memory_mib=768_000)
    a40 = hosts("a04", cpus=128, gpus=8, gpu_type="a40", memory_mib=512_000)
    a100 = hosts("a09", cpus=128, gpus=8, gpu_type="a100", memory_mib=1_000_000, features=("a100_80",))
    single = hosts("ws", 1, cpus=16, gpus=1, memory_mib=63_030)
    forty = hosts("gpunode", 3, cpus=40, threads_per_core=2, memory_mib=64_000)
    ds = hosts("ds01-gpu", 4, cpus=64, gpus=8, gpu_type="a100", memory_mib=512_000)
    one = hosts("linux", 4, cpus=1, memory_mib=4_000)
    gamma, sandbox = hosts("gamma", 4, cpus=32, memory_mib=125_000), hosts("sandbox", 1, cpus=2, memory_mib=4_096)
    ascend = hosts("n", 4, cpus=96, memory_mib=512_000)
    share = {"DefMemPerCPU": "5600", "MaxMemPerCPU": "5600", "DefaultTime": "10", "DefCpuPerGPU": "32"}
    prod = {"DefMemPerCPU": "7812", "PreemptMode": "OFF"}
    preempts = (("PreemptType", "preempt/partition_prio"), ("PreemptMode", "REQUEUE"))
    one_task = (("SelectTypeParameters", "CR_Core_Memory,CR_ONE_TASK_PER_CORE"), ("EnforcePartLimits", "ANY"))
    return [
        lab(
            "h800",
            [h800, first],
            [
                part("zprodhigh", [h800, first], PriorityTier="3", **prod),
                part("zprod", [h800, first], PriorityTier="2", **prod),
                part("zprodlow", [h800, first], PriorityTier="1", **prod),
                part("zprodtest*", [first], MaxTime="00:45:00", PriorityTier="2", **prod),
            ],
            gpus=8,
            is_public=True,
            options=(*one_task, *preempts),
        ),
        lab(
            "helma",
            [zen, h100, h200],
            [
                part("cpu", [zen], MaxTime="1-00:00:00", DefMemPerCPU="1950", DefaultTime="10"),
                part("h100", [h100], MaxTime="1-00:00:00", PriorityTier="10", PreemptMode="OFF", **share),
                part("h200", [h200], MaxTime="1-00:00:00", PriorityTier="10", PreemptMode="OFF", **share),
                part("preempt", [h100, h200], MaxTime="2-00:00:00", PreemptMode="CANCEL", **share),
            ],
            gpus=4,
            is_public=True,
            options=(*MEMORY, *preempts),
        ),
        lab(
            "alex",
            [a40, a100],
            [part("a40", [a40], MaxTime="1-00:00:00"), part("a100", [a100], MaxTime="1-00:00:00")],
            gpus=8,
            is_public=True,
        ),
        lab(
            "workstation",
            [single],
            [part("gpu*", [single], MaxTime="1-00:00:00")],
            gpus=1,
            is_public=True,
            options=(("SelectType", "select/linear"), ("SelectTypeParameters", "CR_Memory")),
        ),
        lab("forty", [forty], [part("gpu*", [forty])], gpus=0, is_public=True),
        lab(
            "ds01",
            [ds],
            [part("gpu*", [ds], MaxTime="24:00:00"), part("interactive", [ds], MaxTime="4:00:00")],
            gpus=8,
            is_public=True,
        ),
        lab("rad", [one], [part("debug*", [one])], gpus=0, is_public=True, options=()),
        lab(
            "gamma",
            [gamma, sandbox],
            [part("compute1*", [gamma]), part("test", [sandbox])],
            gpus=0,
            is_public=True,
            options=(*MEMORY, ("DefMemPerCPU", "4000")),
        ),
        lab(
            "training",
            [ascend],
            [
                part("training*", [ascend], MaxTime="72:00:00"),
                part("experimental", [ascend], MaxTime="04:00:00", PriorityTier="10"),
            ],
            gpus=0,
            is_public=True,
            options=(("SelectTypeParameters", "CR_Core"), *preempts),
        ),
    ]


def _made_up() -> list[GenericLab]:
    cpu = hosts("cpu", cpus=64)
    a100 = hosts("gpu", 3, cpus=64, gpus=4, gpu_type="a100", memory_mib=512_000, features=("a100", "ib"))
    v100 = hosts("old", 2, cpus=32, gpus=2, gpu_type="v100", features=("v100",))
    mig = hosts("mig", 2, cpus=64, gpus=7, gpu_type="a100_1g.5gb", memory_mib=512_000)
    plain = hosts("g", 2, cpus=32, gpus=4)
    threads = hosts("t", 2, cpus=96, threads_per_core=2, gpus=4, gpu_type="h100")
    account, other = Account("chem"), Account("phys", users=("bob",))
    preempts = (("PreemptType", "preempt/partition_prio"), ("PreemptMode", "REQUEUE"))
    return [
        lab("cpu-first", [cpu, a100], [part("batch*", [cpu]), part("gpu", [a100])], gpus=4),
        lab("no-default-limit", [plain], [part("all*", [plain])], gpus=4, options=()),
        lab("one-partition", [cpu, a100], [part("all*", [cpu, a100])], gpus=4),
        lab(
            "slices",
            [a100, mig],
            [part("main*", [a100, mig])],
            gpus=4,
        ),
        lab("threads", [threads], [part("gpu*", [threads])], gpus=4),
        lab(
            "little-memory",
            [cpu, a100],
            [part("cpubase*", [cpu], DefMemPerCPU="256"), part("gpubase", [a100], DefMemPerCPU="256")],
            gpus=4,
        ),
        lab(
            "scavenger",
            [a100],
            [
                part("owners", [a100], AllowAccounts="phys", PriorityTier="10", PreemptMode="OFF"),
                part("scavenge*", [a100], PreemptMode="REQUEUE"),
            ],
            gpus=4,
            accounts=[account, other],
            options=(*MEMORY, *preempts),
        ),
        lab(
            "short-default",
            [a100, v100],
            [
                part("debug*", [v100], MaxTime="00:10:00", MaxNodes="1"),
                part("long", [a100], MaxTime="7-00:00:00"),
                part("old", [v100], MaxTime="7-00:00:00"),
            ],
            gpus=4,
        ),
        lab(
            "qos-per-partition",
            [cpu, a100],
            [part("cpu*", [cpu]), part("gpu", [a100], QoS="gpuq")],
            gpus=4,
            accounts=[account],
            qos=[Qos("gpuq", (("MaxWall", "1-00:00:00"), ("Flags", "DenyOnLimit"), ("MaxTRESPerJob", "node=2")))],
        ),
        lab(
            "exclusive",
            [a100],
            [part("whole*", [a100], OverSubscribe="EXCLUSIVE")],
            gpus=4,
        ),
        lab(
            "down-default",
            [cpu, a100],
            [part("old*", [cpu], AllowGroups="nobody"), part("cpu", [cpu]), part("gpu", [a100])],
            gpus=4,
        ),
    ]


GENERIC = (*_public(), *_made_up())
