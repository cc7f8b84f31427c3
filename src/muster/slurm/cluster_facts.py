"""What Slurm itself says of a cluster, as one value; what a version does not say is None. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.slurm.cluster import Limits, QosLimit

Names = tuple[str, ...]


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job gets where it does not ask, and the most that it may have; None: not so."""

    memory_per_cpu_mib: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_max_mib: int | None = None
    memory_per_node_max_mib: int | None = None
    memory_per_gpu_mib: int | None = None


class PartitionFacts(MemoryFacts, frozen=True, kw_only=True, omit_defaults=True):
    """One partition, as `scontrol show partition` has it."""

    name: str
    is_default: bool = False
    state: str = "UP"
    time_max_s: int | None = None
    """None: no limit."""

    time_default_s: int | None = None
    nodes: int = 0
    nodes_min: int = 0
    nodes_max: int | None = None
    """Of one job; None: no limit."""

    accounts: Names | None = None
    """The accounts that may use it; None: all."""

    accounts_denied: Names = ()
    groups: Names | None = None
    qos: Names | None = None
    """The QOS that may use it; None: all."""

    qos_denied: Names = ()
    own_qos: str | None = None
    """The QOS whose limits every job of it gets."""

    priority_tier: int = 1
    preempt_mode: str = "OFF"
    is_exclusive: bool = False
    submit_hosts: Names | None = None
    """The hosts from which it takes jobs; None: all."""

    needs_reservation: bool = False
    only_root: bool = False
    cpus_per_node_max: int | None = None
    cpus_per_gpu: int | None = None

    @property
    def takes_jobs(self) -> bool:
        """Return whether a job may be queued; of a partition that is DOWN it waits until the partition is up."""
        return self.state in {"UP", "DOWN"}

    @property
    def is_up(self) -> bool:
        return self.state == "UP"


class KindFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of one partition that look alike."""

    partition: str
    nodes: int
    cpus: int
    """What Slurm counts: cores or hardware threads."""

    cores: int
    memories: Mapping[int, int] = msgspec.field(default_factory=dict)
    """MiB of memory → how many of them have it; 0: not known."""

    gpus: tuple[tuple[str, int], ...] = ()
    """Type and count, as gres names them; the type is empty where Slurm has none."""

    features: Names = ()
    out: int = 0
    """How many of them are drained or down."""

    reserved: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Of the others, how many each reservation has."""

    @property
    def memory_mib(self) -> int:
        """Return the memory of the smallest of them; 0: not known, as the 1 MiB of a node of which nobody wrote it."""
        least_mib = min(self.memories, default=0)
        return least_mib if least_mib > 1 else 0

    @property
    def gpu_count(self) -> int:
        return sum(count for _, count in self.gpus)

    @property
    def threads(self) -> int:
        """Return how many of Slurm's CPUs a core is."""
        return max(1, self.cpus // self.cores) if self.cores else 1


class Association(msgspec.Struct, frozen=True, omit_defaults=True):
    """One account that this user may charge."""

    account: str
    partition: str = ""
    """The one partition that it holds in; empty: all."""

    qos: Names = ()
    default_qos: str = ""
    is_default: bool = False
    limits: Limits = msgspec.field(default_factory=dict)
    cluster: str = ""
    above: tuple[tuple[str, Limits], ...] = ()
    """The account, and each one above it, with what all jobs below it may have together."""


class Reservation(msgspec.Struct, frozen=True):
    """Whole nodes that only jobs which name the reservation get, from one moment to another, as Slurm writes both."""

    name: str
    start: str
    end: str


class ClusterFacts(MemoryFacts, frozen=True, kw_only=True, omit_defaults=True):
    """What one cluster says of itself to one user."""

    name: str
    asked: str = ""
    """When it said so, by its own clock: 2026-11-23T11:05:00."""

    version: str = ""
    partitions: tuple[PartitionFacts, ...] = ()
    kinds: tuple[KindFacts, ...] = ()
    """Empty: the nodes are not shown to this user."""

    reservations: tuple[Reservation, ...] = ()
    qos: tuple[QosLimit, ...] = ()
    associations: tuple[Association, ...] | None = None
    """None: the cluster keeps none, or did not tell."""

    keeps_accounts: bool = False
    """An accounting database knows its users."""

    enforces: Names = ()
    """What accounting holds every job to: associations, limits, qos."""

    has_ports: bool = False
    """MpiParams reserves ports for steps."""

    binds: bool | None = None
    """Whether srun can bind tasks to cores; False: it warns that the cluster cannot. None: a plug-in decides."""

    kills_on_bad_exit: bool | None = None
    array_max: int | None = None
    """The numbers of an array are below it (MaxArraySize)."""

    topology: str = ""
    preempt_type: str = ""
    preempt_mode: str = "OFF"
    counts_gpus: bool = True
    """Its scheduler gives out GPUs by --gpus-per-node (cons_tres, since 19.05); another one by --gres alone."""

    shares_memory: bool = False
    """Memory is given out, so a job has what it asked for, or the default."""

    routes: bool = False
    """A plug-in of the site reads every job, and may send it to a partition that nobody named."""

    user_groups: Names = ()
    """The groups of this user on this host, by name; empty: not known."""

    host: str = ""
    """This host, as Slurm writes names; empty: not known."""

    unanswered: Names = ()
    """The clients that gave no answer, in words."""

    def partition(self, name: str) -> PartitionFacts | None:
        """Return the partition of this name."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    @property
    def default_partition(self) -> PartitionFacts | None:
        return next((partition for partition in self.partitions if partition.is_default), None)

    def kinds_of(self, partition: str) -> tuple[KindFacts, ...]:
        """Return the kinds of node of a partition."""
        return tuple(kind for kind in self.kinds if kind.partition == partition)

    def qos_named(self, name: str) -> QosLimit | None:
        """Return the QOS of this name."""
        return next((qos for qos in self.qos if qos.name == name), None)
