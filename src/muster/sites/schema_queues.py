"""The parts of a profile that say what a node is, and how a job asks for nodes: queues, rules, memory."""

from typing import Annotated, Literal

from msgspec import Meta, field

from muster.sites.schema_words import Cores, Count, Flag, GpuKind, Number, Optional, Part, Size, Text, Walltime, When

ONE_THREAD = frozenset({"--hint=nomultithread", "--threads-per-core=1"})
"""Flags with which one CPU of Slurm is a core, where its nodes count threads."""

# ---------------------------------------------------------------- what a node is


class NodeKind(Part, frozen=True, kw_only=True):
    """One kind of node."""

    title: Optional[Text] = None
    nodes: Optional[Count] = None
    """How many of them there are."""

    arch: Optional[Literal["x86_64", "aarch64"]] = None
    gpu: Optional[Text] = None
    gpu_kind: Optional[GpuKind] = None
    gpu_type: Optional[str] = None
    """Type of its GPUs in a typed gres, where the kinds of node differ in it: gpu:TYPE:N."""

    gpus: Optional[Number] = None
    """Logical GPUs: what Slurm counts and what a rank gets."""

    gpus_physical: Optional[Number] = None
    gpu_memory_mib: Optional[Count] = None
    cores: Optional[Count] = None
    threads_per_core: Optional[Count] = None
    reserved_cores: Optional[Cores] = None
    """Cores that no job gets."""

    cores_per_gpu: Optional[Count] = None
    cores_per_gpu_required: Optional[bool] = None
    """True: another ratio is refused or leaves GPUs idle."""

    memory_mib: Optional[Count] = None
    memory_usable: Optional[Size] = None
    """What a job can ask for."""

    mem_per_gpu: Optional[Size] = None
    """A GPU's share, where it differs from `memory.mem_per_gpu`: a slice of a GPU has less."""

    numa: Optional[tuple[Cores, ...]] = None
    """First hardware thread of the cores of each NUMA domain."""

    gpu_numa: Optional[tuple[Number, ...]] = None
    """NUMA domain of each logical GPU."""

    nics: Optional[Number] = None
    local_disk: Optional[Text] = None


# ---------------------------------------------------------------- how to ask


class Forbidden(Part, frozen=True, kw_only=True):
    """A flag that the site refuses, or that does harm there."""

    flag: Annotated[str, Meta(pattern=r"^[a-z][a-z-]*$", description="a long flag without its hyphens")]
    value: Optional[str] = None
    """None: whatever its value."""

    reason: Text
    instead: Optional[Text] = None
    source: Optional[str] = None


class SiteRequest(Part, frozen=True, kw_only=True):
    """How an allocation is asked for."""

    gpus: Optional[Literal["gres", "gpus-per-node", "gpus-per-task", "gpus", "whole-node"]] = None
    cpus: Optional[Literal["cores", "threads"]] = None
    """What --cpus-per-task counts there."""

    gpu_type: Optional[str] = None
    """Type in a typed gres: gpu:TYPE:N."""

    gres_names: Optional[tuple[str, ...]] = None
    required: Optional[
        tuple[
            Literal["account", "partition", "qos", "constraint", "time", "nodes", "cpus-per-task", "mem", "gpus"], ...
        ]
    ] = None
    """Selectors without which the site refuses the job, or silently takes another."""

    account_pattern: Optional[str] = None
    """Regular expression of a valid account."""

    account_suffix: Optional[dict[str, str]] = None
    """Kind of node → suffix of the account."""

    account_example: Optional[str] = None
    constraint: Optional[dict[str, str]] = None
    """Kind of node → constraint that selects it."""

    requeue: Literal["asked", "never", "always"] = "asked"
    """When a job runs again after a failed node: where the user asks for it; else the site leaves no choice."""

    export: Literal["none", "all"] = "none"
    """What a job takes of the submitting shell's environment; all: where the site says to leave --export alone."""

    slurm_cpus: Optional[Literal["cores", "threads"]] = None
    """What Slurm's own node has as CPUs: threads, where only --hint or --threads-per-core makes one CPU a core."""

    time_min: Optional[Walltime] = None
    """The shortest time that a job of any queue may ask for."""

    time_max: Optional[Walltime] = None
    """The longest time that a job of any queue may ask for."""

    sharing: Optional[Literal["exclusive", "shared", "by partition"]] = None
    whole_nodes: bool = False
    """True: a job with GPUs has all GPUs of each of its nodes, and asks for them."""

    silent_defaults: Optional[tuple[Text, ...]] = None
    """What the site does, without a word, with an incomplete request."""

    forbidden: tuple[Forbidden, ...] = ()
    sbatch: Optional[tuple[Flag, ...]] = None
    """Flags of every job, whole."""

    features: Optional[tuple[str, ...]] = None
    optional: dict[str, Text] = field(default_factory=dict)
    """Flags that are the site's own and may be useful: flag → what it does."""


class TimeBin(Part, frozen=True, kw_only=True):
    """A walltime limit that depends on the size of the job."""

    nodes_max: Optional[Count] = None
    gpus_max: Optional[Count] = None
    """GPUs of all nodes together."""

    time_max: Walltime


class Queue(Part, frozen=True, kw_only=True):
    """One partition or quality of service."""

    purpose: Optional[
        Literal["production", "debug", "interactive", "large", "long", "test", "cpu", "transfer", "special"]
    ] = None
    title: Optional[Text] = None
    node: Optional[str] = None
    """Kind of node, as `nodes` names it; of several kinds the one that a job gets that names no type of GPU."""

    other_nodes: tuple[str, ...] = ()
    """Further kinds of its nodes: the type of GPU, or the constraint, of a job selects one."""

    qos: tuple[str, ...] = ()
    """The QOS that jobs of this partition may have; the first is asked for where a job names none."""

    gpus: Optional[Number] = None
    """Logical GPUs of its nodes; 0: none."""

    gpus_min: Optional[Number] = None
    """GPUs that a job has to ask for, on all its nodes together."""

    gpus_max: Optional[Count] = None
    """GPUs that a job, or all jobs of a user, may have at a time, on all nodes together."""

    gpus_per_node: Optional[tuple[Count, ...]] = None
    """The numbers of GPUs of a node that a job may ask for, where not each number is one."""

    nodes: Optional[Count] = None
    nodes_min: Optional[Count] = None
    nodes_max: Optional[Count] = None
    time_min: Optional[Walltime] = None
    time_max: Optional[Walltime] = None
    time_default: Optional[Walltime] = None
    time_by_nodes: tuple[TimeBin, ...] = ()
    node_minutes_max: Optional[Count] = None
    """Nodes × minutes of one job."""

    preempted: Optional[Literal["requeue", "cancel", "suspend"]] = None
    """What becomes of its jobs where others may take their nodes; none: nobody may, or it is not known."""

    jobs_running: Optional[Count] = None
    jobs_queued: Optional[Count] = None
    sharing: Optional[Literal["exclusive", "shared"]] = None
    default: bool = False
    """What a job gets that names none."""

    open: bool = True
    """False: on request, down, or not yet there."""

    needs: Optional[Text] = None
    """What a project needs before its jobs may run here; a job is planned, with a warning."""

    fair_use: Optional[Text] = None
    notes: tuple[Text, ...] = ()
    source: Optional[str] = None


class QueueRule(Part, frozen=True, kw_only=True):
    """The queue that follows from a request; the first rule that holds decides, and what the user names wins."""

    when: When = field(default_factory=When)
    partition: Optional[str] = None
    qos: Optional[str] = None
    reason: Text
    source: Optional[str] = None


class SiteMemory(Part, frozen=True, kw_only=True):
    """How memory is asked for."""

    policy: Optional[Literal["whole-node", "explicit", "per-gpu", "per-core", "forbidden", "free"]] = None
    """whole-node: all of it comes with the node; explicit: must be asked for; forbidden: must not."""

    mem: Optional[Size] = None
    """What a whole node asks for where it has to."""

    mem_per_gpu: Optional[Size] = None
    default_per_cpu: Optional[Size] = None
    """What a job gets for each CPU where it asks for none."""

    zero_allowed: Optional[bool] = None
    """Whether --mem=0 is accepted."""
