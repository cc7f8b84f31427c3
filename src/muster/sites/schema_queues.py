"""The parts of a profile that say what a node is, and how a job asks for nodes: queues, rules, memory."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from muster.sites.schema_words import Cores, Count, Flag, GpuKind, Number, Part, Size, Text, Walltime, When

ONE_THREAD = frozenset({"--hint=nomultithread", "--threads-per-core=1"})
"""Flags with which one CPU of Slurm is a core, where its nodes count threads."""

# ---------------------------------------------------------------- what a node is


class NodeKind(Part, frozen=True, kw_only=True):
    """One kind of node."""

    title: Text | None = None
    nodes: Count | None = None
    """How many of them there are."""

    arch: Literal["x86_64", "aarch64"] | None = None
    gpu: Text | None = None
    gpu_kind: GpuKind | None = None
    gpu_type: str | None = None
    """Type of its GPUs in a typed gres, where the kinds of node differ in it: gpu:TYPE:N."""

    gpus: Number | None = None
    """Logical GPUs: what Slurm counts and what a rank gets."""

    gpus_physical: Number | None = None
    gpu_memory_mib: Count | None = None
    cores: Count | None = None
    threads_per_core: Count | None = None
    reserved_cores: Cores | None = None
    """Cores that no job gets."""

    cores_per_gpu: Count | None = None
    cores_per_gpu_required: bool | None = None
    """True: another ratio is refused or leaves GPUs idle."""

    memory_mib: Count | None = None
    memory_usable: Size | None = None
    """What a job can ask for."""

    mem_per_gpu: Size | None = None
    """A GPU's share, where it differs from `memory.mem_per_gpu`: a slice of a GPU has less."""

    numa: tuple[Cores, ...] | None = None
    """First hardware thread of the cores of each NUMA domain."""

    gpu_numa: tuple[Number, ...] | None = None
    """NUMA domain of each logical GPU."""

    nics: Number | None = None
    local_disk: Text | None = None


# ---------------------------------------------------------------- how to ask


class Forbidden(Part, frozen=True, kw_only=True):
    """A flag that the site refuses, or that does harm there."""

    flag: Annotated[str, Meta(pattern=r"^[a-z][a-z-]*$", description="a long flag without its hyphens")]
    value: str | None = None
    """None: whatever its value."""

    reason: Text
    instead: Text | None = None
    source: str | None = None


class SiteRequest(Part, frozen=True, kw_only=True):
    """How an allocation is asked for."""

    gpus: Literal["gres", "gpus-per-node", "gpus-per-task", "gpus", "whole-node"] | None = None
    cpus: Literal["cores", "threads"] | None = None
    """What --cpus-per-task counts there."""

    gpu_type: str | None = None
    """Type in a typed gres: gpu:TYPE:N."""

    gres_names: tuple[str, ...] | None = None
    required: (
        tuple[
            Literal["account", "partition", "qos", "constraint", "time", "nodes", "cpus-per-task", "mem", "gpus"], ...
        ]
        | None
    ) = None
    """Selectors without which the site refuses the job, or silently takes another."""

    account_pattern: str | None = None
    """Regular expression of a valid account."""

    account_suffix: dict[str, str] | None = None
    """Kind of node → suffix of the account."""

    account_example: str | None = None
    constraint: dict[str, str] | None = None
    """Kind of node → constraint that selects it."""

    requeue: Literal["asked", "never", "always"] = "asked"
    """When a job runs again after a failed node: where the user asks for it; else the site leaves no choice."""

    export: Literal["none", "all"] = "none"
    """What a job takes of the submitting shell's environment; all: where the site says to leave --export alone."""

    slurm_cpus: Literal["cores", "threads"] | None = None
    """What Slurm's own node has as CPUs: threads, where only --hint or --threads-per-core makes one CPU a core."""

    time_min: Walltime | None = None
    """The shortest time that a job of any queue may ask for."""

    time_max: Walltime | None = None
    """The longest time that a job of any queue may ask for."""

    sharing: Literal["exclusive", "shared", "by partition"] | None = None
    whole_nodes: bool = False
    """True: a job with GPUs has all GPUs of each of its nodes, and asks for them."""

    silent_defaults: tuple[Text, ...] | None = None
    """What the site does, without a word, with an incomplete request."""

    forbidden: tuple[Forbidden, ...] = ()
    sbatch: tuple[Flag, ...] | None = None
    """Flags of every job, whole."""

    features: tuple[str, ...] | None = None
    optional: dict[str, Text] = field(default_factory=dict)
    """Flags that are the site's own and may be useful: flag → what it does."""


class TimeBin(Part, frozen=True, kw_only=True):
    """A walltime limit that depends on the size of the job."""

    nodes_max: Count | None = None
    gpus_max: Count | None = None
    """GPUs of all nodes together."""

    time_max: Walltime


class Queue(Part, frozen=True, kw_only=True):
    """One partition or quality of service."""

    purpose: (
        Literal["production", "debug", "interactive", "large", "long", "test", "cpu", "transfer", "special"] | None
    ) = None
    title: Text | None = None
    node: str | None = None
    """Kind of node, as `nodes` names it; of several kinds the one that a job gets that names no type of GPU."""

    other_nodes: tuple[str, ...] = ()
    """Further kinds of its nodes: the type of GPU, or the constraint, of a job selects one."""

    qos: tuple[str, ...] = ()
    """The QOS that jobs of this partition may have; the first is asked for where a job names none."""

    gpus: Number | None = None
    """Logical GPUs of its nodes; 0: none."""

    gpus_min: Number | None = None
    """GPUs that a job has to ask for, on all its nodes together."""

    gpus_max: Count | None = None
    """GPUs that a job, or all jobs of a user, may have at a time, on all nodes together."""

    gpus_per_node: tuple[Count, ...] | None = None
    """The numbers of GPUs of a node that a job may ask for, where not each number is one."""

    nodes: Count | None = None
    nodes_min: Count | None = None
    nodes_max: Count | None = None
    time_min: Walltime | None = None
    time_max: Walltime | None = None
    time_default: Walltime | None = None
    time_by_nodes: tuple[TimeBin, ...] = ()
    node_minutes_max: Count | None = None
    """Nodes × minutes of one job."""

    preempted: Literal["requeue", "cancel", "suspend"] | None = None
    """What becomes of its jobs where others may take their nodes; none: nobody may, or it is not known."""

    jobs_running: Count | None = None
    jobs_queued: Count | None = None
    sharing: Literal["exclusive", "shared"] | None = None
    default: bool = False
    """What a job gets that names none."""

    open: bool = True
    """False: on request, down, or not yet there."""

    needs: Text | None = None
    """What a project needs before its jobs may run here; a job is planned, with a warning."""

    fair_use: Text | None = None
    notes: tuple[Text, ...] = ()
    source: str | None = None


class QueueRule(Part, frozen=True, kw_only=True):
    """The queue that follows from a request; the first rule that holds decides, and what the user names wins."""

    when: When = field(default_factory=When)
    partition: str | None = None
    qos: str | None = None
    reason: Text
    source: str | None = None


class SiteMemory(Part, frozen=True, kw_only=True):
    """How memory is asked for."""

    policy: Literal["whole-node", "explicit", "per-gpu", "per-core", "forbidden", "free"] | None = None
    """whole-node: all of it comes with the node; explicit: must be asked for; forbidden: must not."""

    mem: Size | None = None
    """What a whole node asks for where it has to."""

    mem_per_gpu: Size | None = None
    default_per_cpu: Size | None = None
    """What a job gets for each CPU where it asks for none."""

    zero_allowed: bool | None = None
    """Whether --mem=0 is accepted."""
