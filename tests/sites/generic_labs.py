"""Clusters that no profile describes. The facts of twenty-one were read in public files; eleven are made up.

Facts of: the slurm.conf of a cluster of 4 × 8 H800 (a page on its installation, 22.05), of a workstation with one GPU
(select/linear), of three nodes of 40 threads, of four nodes of 8 A100, of GoogleCloudPlatform/rad-lab
(modules/hpc_slurm/templates/slurm.conf.tpl), of vitomatics/test (profile/slurm-cluster1.sls), of eight nodes with
partitions for training and inference; what scontrol and sinfo showed of NHR@FAU's Helma and Alex (2026). Of the second
six: a lab's page of facts on four nodes of H100 NVL (August 2026), the test cluster of a plug-in that picks slim or
fat nodes; pages on the installation of a server with seven cards and of three nodes of 128 cores, what
scontrol showed of H100 nodes of 112 cores (a user's notes); a record of a cluster of 8-GPU nodes under Bright (21.08).
Of the third six: slurm.conf of rahuldhal50/slurm at a1280269 (the limits of its QOS are not public),
danielmc81/slurm_config_files at e811a968, yyuzhongpv/GPU-Cluster-Configuration at f884546b,
anhduy0911/VinUni_SlurmSetup at b730070e, BioMedIA/salt-cluster at 0e8c1f2b, and etc/slurm/slurm.conf of
predictive-analytics-lab/ubuntu-slurm at 1b6fe9d5.
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
    gpu_nodes: int = 2
    """How many nodes with GPUs an ordinary job may ask for."""

    without_default: str | None = None
    """The partition that a lab would make its default one, where the cluster has none."""

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
    gpu_nodes: int = 2,
    without_default: str | None = None,
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
    nodes = min(gpu_nodes, len(spec.hosts))
    return GenericLab(
        name, spec, gpus, is_public, nodes, without_default, ("SelectType", "select/linear") not in options
    )


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


def _second() -> list[GenericLab]:
    """Return clusters of public files that were read after the others; nothing was repaired before the first round."""
    sprc = hosts("sprc", 4, cpus=128, threads_per_core=2, gpus=2, gpu_type="h100_nvl", memory_mib=1_500_000)
    inter = hosts("node11", 1, cpus=288, memory_mib=1_537_338)
    slim1 = hosts("node12", 2, cpus=288, memory_mib=1_537_338)
    slim2 = hosts("node01", 3, cpus=192, memory_mib=505_529)
    fat = hosts("node14", 2, cpus=288, memory_mib=2_311_479)
    a10 = hosts("node10", 1, cpus=64, gpus=1, gpu_type="a10", memory_mib=247_474)
    server = hosts("server", 1, cpus=192, threads_per_core=2, gpus=7, memory_mib=515_558)
    epyc = hosts("g", 2, cpus=256, threads_per_core=2, gpus=2, memory_mib=1_160_365, features=("2.25GHz",))
    plain = hosts("gcpu", 1, cpus=128, threads_per_core=2, memory_mib=515_800, features=("2.5GHz",))
    h100 = hosts("hgpn", 4, cpus=112, gpus=8, gpu_type="H100", memory_mib=1_900_000)
    dgx = hosts("node", 3, cpus=240, gpus=8, memory_mib=850_000)
    weeks = {"MaxTime": "14-00:00:00", "DefaultTime": "0-01:00:00"}
    by_qos = (("EnforcePartLimits", "ALL"), ("PreemptType", "preempt/qos"), ("PreemptMode", "REQUEUE"))
    a_day = (("MaxWall", "1-00:00:00"),)
    research = {"AllowAccounts": "grads,undergrads", "AllowQos": "normal,undergrad,expedite"}
    return [
        lab(
            "sprc",
            [sprc],
            [
                part("main*", [sprc], MaxTime="3-00:00:00", DefaultTime="02:00:00", PriorityTier="1"),
                part("debug", [sprc], MaxTime="01:00:00", MaxNodes="1", PriorityTier="10", **research),
            ],
            gpus=2,
            is_public=True,
            options=(("SelectTypeParameters", "CR_CPU_Memory,CR_PACK_NODES"), ("DefMemPerCPU", "12000"), *by_qos),
            accounts=[Account("grads"), Account("undergrads", users=("bob",))],
            qos=[Qos("scavenger", a_day), Qos("undergrad", a_day), Qos("expedite", (*a_day, ("Preempt", "scavenger")))],
        ),
        lab(
            "slim-fat",
            [inter, slim1, slim2, fat, a10],
            [
                part("interactive", [inter], **{**weeks, "MaxTime": "1-00:00:00"}, PriorityTier="1"),
                part("slim1*", [slim1], **weeks, PriorityTier="10"),
                part("slim2", [slim2], **weeks, PriorityTier="9"),
                part("fat1", [fat], **weeks, PriorityTier="8"),
                part("gpu", [a10], **weeks, PriorityTier="1"),
            ],
            gpus=1,
            is_public=True,
            gpu_nodes=1,
            options=(
                ("SelectTypeParameters", "CR_CPU_Memory"),
                ("EnforcePartLimits", "ALL"),
                ("DefMemPerNode", "512"),
            ),
        ),
        lab(
            "seven-cards",
            [server],
            [part("debug*", [server], OverSubscribe="YES")],
            gpus=7,
            is_public=True,
            options=(
                ("SelectTypeParameters", "CR_Core_Memory"),
                ("DefMemPerCPU", "49152"),
                ("MaxMemPerNode", "131072"),
            ),
        ),
        lab(
            "epyc",
            [epyc, plain],
            [part("main*", [epyc, plain])],
            gpus=2,
            is_public=True,
            options=(("SelectTypeParameters", "CR_ONE_TASK_PER_CORE,CR_Core_Memory"), *by_qos),
        ),
        lab(
            "nano",
            [h100],
            [
                part("dev*", [h100], MaxTime="04:00:00", QoS="p_dev"),
                part("8gpus", [h100], MaxTime="2-00:00:00", DenyAccounts="mst1", DefMemPerGPU="204800"),
            ],
            gpus=8,
            is_public=True,
            accounts=[Account("mst2"), Account("mst1", users=("bob",))],
            qos=[Qos("p_dev", (("Priority", "0"),))],
        ),
        lab(
            "defq",
            [dgx],
            [part("defq*", [dgx], DefaultTime="07:00:00", DefCpuPerGPU="12", DefMemPerGPU="96000")],
            gpus=8,
            is_public=True,
        ),
    ]


def _third() -> list[GenericLab]:
    """Return clusters of slurm.conf files that were read last; nothing was repaired before the first round."""
    # A node without RealMemory has 1 MiB.
    sixteen = hosts("p1-r0", 2, cpus=96, threads_per_core=2, gpus=16, memory_mib=1_469_490)
    other = hosts("p3-r5", 1, cpus=96, threads_per_core=2, gpus=16, memory_mib=1_469_000)
    fermi = hosts("ibnodo", 2, cpus=64, gpus=4, gpu_type="m2070q", memory_mib=1, features=("gpu", "interlagos"))
    inter = hosts("ibnodo0", 2, cpus=64, memory_mib=128_745, features=("interlagos",))
    broad = hosts("ibnodo2", 1, cpus=40, memory_mib=128_660, features=("broadwell",))
    seen = hosts("visualizacion", 1, cpus=8, gpus=1, gpu_type="rtx2080", memory_mib=72_319)
    tesla = hosts("ibtesla", 1, cpus=16, gpus=4, gpu_type="v100", memory_mib=257_355, features=("skylake", "v100"))
    master = hosts("master", 1, cpus=48, threads_per_core=2, memory_mib=256_000)
    dgx = hosts("dgx", 2, cpus=80, threads_per_core=2, gpus=8, memory_mib=512_000)
    ones = hosts("slurmnode", 2, cpus=64, threads_per_core=2, gpus=1, memory_mib=1)
    twos = hosts("slurmnode0", 2, cpus=64, threads_per_core=2, gpus=2, memory_mib=1)
    small, big = hosts("biomedia0", 1, cpus=24, memory_mib=64_000), hosts("biomedia1", 1, cpus=64, memory_mib=118_000)
    roc, alone = hosts("roc", 1, cpus=32, memory_mib=243_000), hosts("biomedia", 1, cpus=32, memory_mib=252_000)
    monal = [
        hosts("monala", 1, cpus=40, gpus=8, memory_mib=210_000),
        hosts("monalb", 1, cpus=40, gpus=8, memory_mib=200_000),
        hosts("monalc", 1, cpus=56, gpus=4, memory_mib=220_000),
    ]
    goedel = hosts("goedel", 1, cpus=24, gpus=8, gpu_type="nvidia_geforce_rtx_3090", memory_mib=257_626)
    shared, week = {"OverSubscribe": "YES"}, {"MaxTime": "7-00:00:00"}
    both, plenty = [sixteen, other], {"DefMemPerCPU": "14900"}
    cpu_and_memory = ("SelectTypeParameters", "CR_CPU_Memory")
    return [
        lab(
            "sixteen",
            both,
            [
                part("default-short*", both, MaxTime="12:00:00", QoS="p-default-short", **plenty),
                part("default-long", both, MaxTime="3-00:00:00", QoS="p-default-long", **plenty),
                part("multigpu", both, QoS="p-multigpu", **week, **plenty),
                part("special", both, MaxTime="14-00:00:00", AllowQos="high", QoS="p-special", **plenty),
            ],
            gpus=16,
            is_public=True,
            options=(
                ("SelectTypeParameters", "CR_CPU_Memory,CR_CORE_DEFAULT_DIST_BLOCK"),
                ("EnforcePartLimits", "ALL"),
                ("MpiDefault", "pmix"),
            ),
            qos=[*map(Qos, ("p-default-short", "p-default-long", "p-multigpu", "p-special", "high"))],
        ),
        lab(
            "ocotillo",
            [fermi, inter, broad, seen, tesla],
            [
                part("general", [fermi, inter], MaxMemPerNode="128000", **shared, **week),
                part("serial", [broad], MaxNodes="1", MaxMemPerNode="128000", **shared, **week),
                part("visualizacion", [seen], MaxNodes="1", MaxCPUsPerNode="4", **shared, **week),
                part("ibtesla", [tesla], MaxNodes="1", MaxMemPerNode="256000", **shared, **week),
            ],
            gpus=4,
            is_public=True,
            gpu_nodes=1,
            without_default="general",
            options=(cpu_and_memory, ("DefMemPerNode", "3200")),
            accounts=[Account("lab")],
        ),
        lab(
            "dgx",
            [master, dgx],
            [part("control", [master]), part("gpus", [dgx], OverSubscribe="YES:4")],
            gpus=8,
            is_public=True,
            without_default="control",
            options=(("SelectTypeParameters", "CR_Core_Memory"),),
        ),
        lab(
            "ones-twos",
            [ones, twos],
            [part("slurmpar*", [ones, twos])],
            gpus=2,
            is_public=True,
            options=(("SelectTypeParameters", "CR_Core"), ("DefCpuPerGPU", "4")),
        ),
        lab(
            "monal",
            [small, big, roc, alone, *monal],
            [
                part("long*", [small, big, roc], MaxTime="43200"),
                part("rocsLong", [roc], MaxTime="43200"),
                part("gpus", monal, MaxTime="10080"),
                part("interactive", [alone], MaxTime="4320", PreemptMode="OFF"),
            ],
            gpus=8,
            is_public=True,
            options=(cpu_and_memory, ("DefMemPerCPU", "2048")),
            accounts=[Account("lab")],
        ),
        lab(
            "goedel",
            [goedel],
            [part("PAL1*", [goedel])],
            gpus=8,
            is_public=True,
            gpu_nodes=1,
            options=(
                ("SelectTypeParameters", "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK,CR_ONE_TASK_PER_CORE"),
                ("DefMemPerGPU", "30000"),
            ),
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


GENERIC = (*_public(), *_made_up(), *_second(), *_third())
