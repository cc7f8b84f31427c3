"""The shape of a site profile: every key a profile may have, what it means and what it may hold.

Everything is optional but the name, so that a layer may say one thing only. The field's docstring is the
description in the published JSON Schema and the words of `muster site show`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct, field

from muster.launchers import WIREUPS
from muster.rank.vendors import KINDS
from muster.sites.text import SCHEMA_VERSION

__all__ = [
    "Bandwidth",
    "Bind",
    "Binding",
    "Container",
    "Detect",
    "Devices",
    "Fabric",
    "Fact",
    "FileSystem",
    "Forbidden",
    "FrontEnd",
    "Help",
    "Image",
    "Modules",
    "Network",
    "NodeKind",
    "Offer",
    "Probes",
    "Profile",
    "Queue",
    "QueueRule",
    "Quirk",
    "SiteCommand",
    "SiteLaunch",
    "SiteMemory",
    "SiteRendezvous",
    "SiteRequest",
    "SiteVariable",
    "Source",
    "TimeBin",
    "Unpublished",
    "When",
]

Count = Annotated[int, Meta(ge=1, description="a whole number from 1 up")]
Number = Annotated[int, Meta(ge=0, description="a whole number from 0 up")]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
Walltime = Annotated[
    str,
    Meta(
        pattern=r"^(([0-9]+-)?[0-9]+(:[0-9]{2}){1,2}|[0-9]+-[0-9]+|UNLIMITED)$",
        description='a time as Slurm writes it, with its colons: "02:00:00", "2-00:00:00"',
    ),
]
Cores = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$",
        description='cores as a list: "0-15" or "0-5,48-53"',
    ),
]
Size = Annotated[
    str, Meta(pattern=r"^[0-9]{1,15}[KMGT]?$", description='a memory size as Slurm writes it: "480G", "460000M"')
]
Flag = Annotated[
    str, Meta(pattern=r"^-{1,2}[A-Za-z][^\x00-\x1f]*$", description='one whole flag: "--hint=nomultithread"')
]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*$", description="small letters, digits and hyphens")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of an environment variable")]
Word = Annotated[str, Meta(pattern=r"^[^\x00]*$", description="one word of a command")]
Text = Annotated[str, Meta(min_length=1, description="a sentence")]
Launcher = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9+-]*$", description="the name of a launcher: srun, torchrun, mpirun")
]
ImageEngine = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9+-]*$", description="the name of a container engine: apptainer")
]
if TYPE_CHECKING:
    GpuKind = str
    Wireup = str
else:  # the registries say which there are
    GpuKind = Literal[(*KINDS, "none")]
    Wireup = Literal[WIREUPS]
Trust = Literal["own", "mixed", "users", "old"]


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all parts of a profile share: frozen, and an unknown key is an error."""


# ---------------------------------------------------------------- where facts come from


class Source(_Part, frozen=True, kw_only=True):
    """A document that facts were taken from."""

    title: Text
    at: Text
    """Where it can be opened again: an address, or OWNER/NAME @COMMIT with the path in it."""

    dated: dt.date | None = None
    """Date of the copy that was read."""

    checked: dt.date
    """Day on which the profile was last compared with that copy."""

    trust: Literal["D", "V", "T"]
    """D: the site's own documentation; V: vendor or site staff; T: third party. Unverified facts have no trust."""


class Fact(_Part, frozen=True, kw_only=True):
    """Where a key, and everything below it, comes from, and why it is so."""

    source: Text
    """Name in `sources`."""

    reason: Text | None = None
    where: Text | None = None
    """Page or section of the source."""


class Unpublished(_Part, frozen=True, kw_only=True):
    """A key for which nothing is published: looked for on `checked`, not found."""

    checked: dt.date
    note: Text | None = None


class Offer(_Part, frozen=True, kw_only=True):
    """Something that is not verified: it is offered with the word "unverified", and never a default."""

    key: Text
    value: Text
    reason: Text
    checked: dt.date


# ---------------------------------------------------------------- conditions


class When(_Part, frozen=True, kw_only=True):
    """When an entry holds; every condition given must hold."""

    nodes_min: Count | None = None
    nodes_max: Count | None = None
    gpus_min: Count | None = None
    """Logical GPUs per node that the job asks for, at least."""

    gpus_max: Number | None = None
    whole_node: bool | None = None
    """True: the job has all GPUs of its nodes."""

    time_max: Walltime | None = None
    launchers: tuple[Launcher, ...] | None = None
    stacks: tuple[str, ...] | None = None
    """Software stacks of this site: a container kind or an environment kind, as `containers` and `images` name them."""

    container: bool | None = None
    """True: only in a container; False: only without one."""

    gpu_kinds: tuple[str, ...] | None = None
    """Kinds of node, as `nodes` names them."""

    nccl_below: str | None = None
    """Versions of NCCL that need it; unknown versions do not."""

    trial: bool | None = None
    """The user asked for a debugging run."""

    workload: Text | None = None
    """Needed by some programs only: never set by itself, offered by this name."""


# ---------------------------------------------------------------- what a node is


class NodeKind(_Part, frozen=True, kw_only=True):
    """One kind of node."""

    title: Text | None = None
    nodes: Count | None = None
    """How many of them there are."""

    arch: Literal["x86_64", "aarch64"] | None = None
    gpu: Text | None = None
    gpu_kind: GpuKind | None = None
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

    numa: tuple[Cores, ...] | None = None
    """First hardware thread of the cores of each NUMA domain."""

    gpu_numa: tuple[Number, ...] | None = None
    """NUMA domain of each logical GPU."""

    nics: Number | None = None
    local_disk: Text | None = None


# ---------------------------------------------------------------- how to ask


class Forbidden(_Part, frozen=True, kw_only=True):
    """A flag that the site refuses, or that does harm there."""

    flag: Annotated[str, Meta(pattern=r"^[a-z][a-z-]*$", description="a long flag without its hyphens")]
    value: str | None = None
    """None: whatever its value."""

    reason: Text
    instead: Text | None = None
    source: str | None = None


class SiteRequest(_Part, frozen=True, kw_only=True):
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

    sharing: Literal["exclusive", "shared", "by partition"] | None = None
    silent_defaults: tuple[Text, ...] | None = None
    """What the site does, without a word, with an incomplete request."""

    forbidden: tuple[Forbidden, ...] = ()
    sbatch: tuple[Flag, ...] | None = None
    """Flags of every job, whole."""

    features: tuple[str, ...] | None = None
    optional: dict[str, Text] = field(default_factory=dict)
    """Flags that are the site's own and may be useful: flag → what it does."""


class TimeBin(_Part, frozen=True, kw_only=True):
    """A walltime limit that depends on the size of the job."""

    nodes_max: Count
    time_max: Walltime


class Queue(_Part, frozen=True, kw_only=True):
    """One partition or quality of service."""

    purpose: (
        Literal["production", "debug", "interactive", "large", "long", "test", "cpu", "transfer", "special"] | None
    ) = None
    title: Text | None = None
    node: str | None = None
    """Kind of node, as `nodes` names it."""

    gpus: Number | None = None
    """Logical GPUs of its nodes; 0: none."""

    nodes: Count | None = None
    nodes_min: Count | None = None
    nodes_max: Count | None = None
    time_max: Walltime | None = None
    time_default: Walltime | None = None
    time_by_nodes: tuple[TimeBin, ...] = ()
    node_minutes_max: Count | None = None
    """Nodes × minutes of one job."""

    jobs_running: Count | None = None
    jobs_queued: Count | None = None
    sharing: Literal["exclusive", "shared"] | None = None
    default: bool = False
    """What a job gets that names none."""

    open: bool = True
    """False: on request, down, or not yet there."""

    fair_use: Text | None = None
    notes: tuple[Text, ...] = ()
    source: str | None = None


class QueueRule(_Part, frozen=True, kw_only=True):
    """The queue that follows from a request; the first rule that holds decides, and what the user names wins."""

    when: When = field(default_factory=When)
    partition: str | None = None
    qos: str | None = None
    reason: Text
    source: str | None = None


class SiteMemory(_Part, frozen=True, kw_only=True):
    """How memory is asked for."""

    policy: Literal["whole-node", "explicit", "per-gpu", "per-core", "forbidden", "free"] | None = None
    """whole-node: all of it comes with the node; explicit: must be asked for; forbidden: must not."""

    mem: Size | None = None
    """What a whole node asks for where it has to."""

    mem_per_gpu: Size | None = None
    zero_allowed: bool | None = None
    """Whether --mem=0 is accepted."""


# ---------------------------------------------------------------- how ranks start


class SiteLaunch(_Part, frozen=True, kw_only=True):
    """How the ranks start inside the allocation."""

    allowed: tuple[Launcher, ...] | None = None
    preferred: Launcher | None = None
    refused: dict[str, Text] = field(default_factory=dict)
    """Launcher → why not here."""

    wireup: Wireup | None = None
    """The method of muster.world() where neither the script nor --wireup names one."""

    mpi: str | None = None
    """srun --mpi for programs that use MPI; ranks of torch need none."""

    mpi_types: tuple[str, ...] | None = None
    mpi_by_stack: dict[str, str] = field(default_factory=dict)
    """Software stack → srun --mpi."""

    srun: tuple[Flag, ...] | None = None
    """Flags of every step, whole."""

    srun_by_stack: dict[str, tuple[Flag, ...]] = field(default_factory=dict)
    stack_by_flag: dict[str, str] = field(default_factory=dict)
    """A flag of srun or sbatch that brings a software stack, as `--uenv` does → that stack."""

    mpirun: tuple[Word, ...] | None = None
    """Words after mpirun: mapping, binding, --mca."""

    mpirun_starts_with: Literal["slurm", "ssh"] | None = None
    """How mpirun reaches the other hosts; over ssh the environment has to be passed with -x."""

    kills_on_bad_exit: bool | None = None
    """Whether the site's slurm.conf sets KillOnBadExit."""

    inherits_cpus_per_task: bool | None = None
    """Whether srun takes --cpus-per-task from the job."""

    slurm: str | None = None
    """Version seen there."""

    concurrent_steps_max: Count | None = None

    queues_from_jobs: bool | None = None
    """Whether a job can queue another one: sbatch works on the compute nodes. Where it does not, `submit --until-done`
    queues all links at once."""

    hang_s: Count | None = None
    """Seconds without a sign of life after which a queued job hangs, where nobody gives --hang; the default is 1800."""


class SiteRendezvous(_Part, frozen=True, kw_only=True):
    """Where the ranks meet."""

    host: Literal["as-is", "suffix", "interface", "numeric"] | None = None
    suffix: str | None = None
    """For `suffix`: what is put behind the host's name."""

    interface: str | None = None
    """For `interface`: the network whose address is taken."""

    port_low: Annotated[int, Meta(ge=1024, le=65535, description="a port from 1024 to 65535")] | None = None
    port_high: Annotated[int, Meta(ge=1024, le=65535, description="a port from 1024 to 65535")] | None = None
    reserved_ports: bool | None = None
    """Slurm reserves a port for a step (MpiParams=ports=…)."""

    published_port: Text | None = None
    """What the site's own examples do."""

    ipv4_only: bool | None = None


class Devices(_Part, frozen=True, kw_only=True):
    """Which GPUs a rank sees, and which it uses."""

    visibility: Literal["all", "one"] | None = None
    variable: EnvName | None = None
    """The variable that narrows it."""

    cut_by_site: bool | None = None
    """True: the site's srun shows each task one GPU, unless `variable` is set before it."""

    order: tuple[Number, ...] | None = None
    """All GPUs, in the order in which local ranks should take them; none: 0, 1, 2 …"""

    site_advice: Text | None = None
    """What the site says where that differs, and why Muster shows all."""


class Binding(_Part, frozen=True, kw_only=True):
    """Which cores a rank gets."""

    kind: Literal["none", "mask", "map", "closest"] | None = None
    needs_whole_node: bool | None = None
    site_example: Text | None = None


class SiteVariable(_Part, frozen=True, kw_only=True):
    """One environment variable of the ranks."""

    name: EnvName
    value: str | None = None
    """{job_id}, {run_dir} and {node_tmp} stand for what only the job knows; `$` stays `$`."""

    unset: bool = False
    when: When | None = None
    required: bool = False
    """True: without it the job is wrong, slow or dead; a user who sets it otherwise is told."""

    verdict: Literal["kept", "dropped", "offered"] = "kept"
    """kept: set when `when` holds; dropped: known, and not set, for the reason; offered: set when asked for."""

    conflicts: tuple[EnvName, ...] = ()
    """Variables that may not be set beside it."""

    reason: Text
    source: str | None = None


class Modules(_Part, frozen=True, kw_only=True):
    """The module system."""

    system: Literal["lmod", "tmod", "none"] | None = None
    where: Literal["everywhere", "compute"] | None = None
    """Where the module command exists."""

    init: tuple[str, ...] | None = None
    """Files to read before `module` is there."""

    purge: bool | None = None
    use: tuple[str, ...] | None = None
    load: tuple[str, ...] | None = None
    """What a torch job without a container loads; `A|B`: the first of these that the site has."""

    torch: tuple[str, ...] | None = None
    """What brings Python and torch, for a job that names no environment, module or image; `A|B` as in `load`."""

    by_kind: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of node → modules that stand before all others, where each kind has a tree of its own."""

    catalogue: tuple[str, ...] | None = None
    """Other modules that are known to be there."""

    renamed: dict[str, str] = field(default_factory=dict)
    """A module that is gone → the one that is there."""


class SiteCommand(_Part, frozen=True, kw_only=True):
    """One command of the job besides the user's."""

    argv: tuple[Word, ...]
    where: Literal["login", "batch", "node", "task"]
    """login: before submitting; batch: once, before the step; node: once per node before its ranks; task: in each."""

    when: When | None = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: str | None = None


class Bind(_Part, frozen=True, kw_only=True):
    """A path of the host that a container needs."""

    path: str
    to: str | None = None
    when: When | None = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: str | None = None


class Container(_Part, frozen=True, kw_only=True):
    """One container engine."""

    engine: ImageEngine
    preferred: bool = False
    verb: Literal["exec", "run"] | None = None
    flags: tuple[Word, ...] | None = None
    gpu_flag: bool = True
    """False: the engine's own flag for GPUs (--nv, --rocm) does harm there."""

    entrypoint_stacks: tuple[str, ...] = ()
    """Software stacks of images whose entrypoint has to run."""

    srun: tuple[Flag, ...] | None = None
    modules: tuple[str, ...] | None = None
    module_use: tuple[str, ...] | None = None
    stack: str | None = None
    """The software stack of an image of which the site says nothing else."""

    binds: tuple[Bind, ...] = ()
    hooks: dict[str, str] = field(default_factory=dict)
    """Annotations of the engine."""

    hooks_by_stack: dict[str, dict[str, str]] = field(default_factory=dict)
    definition: Text | None = None
    """How an image is described."""

    build: tuple[Text, ...] = ()
    """How an image is made there."""

    cache: EnvName | None = None
    """Variable that moves its cache."""

    notes: tuple[Text, ...] = ()
    source: str | None = None


class Image(_Part, frozen=True, kw_only=True):
    """An image that the site keeps."""

    path: str
    newest: str | None = None
    """Pattern of the files of which the newest is taken where `path` is not there."""

    engine: str | None = None
    stack: str | None = None
    """The name that `when.stacks` uses."""

    torch: str | None = None
    gpu_library: Text | None = None
    verb: Literal["exec", "run"] | None = None
    activation: tuple[Word, ...] | None = None
    arch: Literal["x86_64", "aarch64"] | None = None
    reason: Text | None = None
    gone: bool = False
    """True: an older text names it, and it is no longer there."""

    source: str | None = None


# ---------------------------------------------------------------- the place


class Fabric(_Part, frozen=True, kw_only=True):
    """The network between the nodes."""

    kind: Literal["slingshot", "infiniband", "omni-path", "ethernet", "roce"] | None = None
    title: Text | None = None
    interfaces: tuple[str, ...] | None = None
    hcas: tuple[str, ...] | None = None
    plugin: Text | None = None
    plugin_stacks: tuple[str, ...] = ()
    """Software stacks that bring the plugin; without it the collectives go over TCP."""

    plugin_modules: tuple[str, ...] = ()
    """Modules that bring the plugin, without their versions."""

    gbit_per_node: Positive | None = None


class FileSystem(_Part, frozen=True, kw_only=True):
    """One place for files."""

    path: str
    use: Text
    scope: Literal["shared", "node", "job"] | None = None
    quota: Text | None = None
    files_max: Text | None = None
    purge_days: Count | None = None
    counts_as_memory: bool | None = None
    operations_per_s: Count | None = None
    """Files opened or looked for, by all nodes together: what starting Python from it is bound by."""

    locks: bool | None = None
    """Whether SQLite's locks work on it from many nodes."""

    backed_up: bool | None = None
    notes: tuple[Text, ...] = ()
    source: str | None = None


class Network(_Part, frozen=True, kw_only=True):
    """The way out."""

    internet: Literal["open", "nat", "proxy", "none", "none-even-login"] | None = None
    proxies: dict[str, str] = field(default_factory=dict)
    """Lower-case variables; the upper-case spelling is set too."""

    no_proxy: tuple[str, ...] = ()
    offline: dict[str, str] = field(default_factory=dict)
    """Variables that tell libraries not to try."""


class Probes(_Part, frozen=True, kw_only=True):
    """What may be asked there."""

    allowed: tuple[str, ...] | None = None
    denied: dict[str, Text] = field(default_factory=dict)
    queues: tuple[Word, ...] | None = None
    """The site's own command that lists the queues."""


class Bandwidth(_Part, frozen=True, kw_only=True):
    """A published result: what the fabric should give."""

    nodes: Count
    ranks_per_node: Count
    collective: Literal["all_reduce", "send_recv"] = "all_reduce"
    size_mib: Positive
    busbw_gb_s: Positive
    """Bus bandwidth in 10^9 bytes per second."""

    tolerance: Annotated[float, Meta(gt=0, lt=1, description="a part of one")] | None = None
    broken_gb_s: Positive | None = None
    """What was measured where the fabric was not used."""

    how: Text
    source: str | None = None


class Quirk(_Part, frozen=True, kw_only=True):
    """Something that goes wrong there."""

    id: Name
    symptom: Text
    fix: Text
    muster: Text | None = None
    """What Muster does about it."""

    applies: Text | None = None
    source: str | None = None


class FrontEnd(_Part, frozen=True, kw_only=True):
    """A command of the site's own beside sbatch and squeue."""

    does: Text
    takes_our_script: bool | None = None
    source: str | None = None


class Help(_Part, frozen=True, kw_only=True):
    """Whom to ask."""

    guide: Text | None = None
    status: Text | None = None
    support: Text | None = None
    front_ends: dict[str, FrontEnd] = field(default_factory=dict)


class Detect(_Part, frozen=True, kw_only=True):
    """How the place is recognised. One certain sign is enough; a node name is none."""

    cluster_names: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    """Variable → regular expression of its whole value."""

    hosts: tuple[str, ...] = ()
    """Regular expressions of whole host names that only this site has."""

    files: tuple[str, ...] = ()
    """Paths that only this site has."""

    nodes: tuple[str, ...] = ()
    """Regular expressions of node names, which other sites may have too: shown, never decisive."""


class Profile(_Part, frozen=True, kw_only=True):
    """A site profile."""

    muster_site: Annotated[int, Meta(ge=1)] = SCHEMA_VERSION
    """Version of this format."""

    name: Name
    title: Text
    system: Text | None = None
    summary: Text | None = None
    """GPUs, fabric and size in one line."""

    extends: str | None = None
    """Profile that this one changes."""

    without: tuple[str, ...] = ()
    """Dotted keys of the profile that is extended, or of weaker layers, that do not hold here."""

    complete: bool = False
    """True: every key has a value or stands in `unpublished`, and the sources are the site's own."""

    trust: Trust | None = None
    """How far it can be trusted: own (the site's own documents of the last 18 months), mixed, users, old."""

    detect: Detect = field(default_factory=Detect)
    nodes: dict[str, NodeKind] = field(default_factory=dict)
    """Kinds of node; the first is what a job gets that names none."""

    request: SiteRequest = field(default_factory=SiteRequest)
    partitions: dict[str, Queue] = field(default_factory=dict)
    qos: dict[str, Queue] = field(default_factory=dict)
    queue_rules: tuple[QueueRule, ...] = ()
    queues_renamed: dict[str, str] = field(default_factory=dict)
    """A partition or QOS that is gone → the one that is there."""

    memory: SiteMemory = field(default_factory=SiteMemory)
    launch: SiteLaunch = field(default_factory=SiteLaunch)
    rendezvous: SiteRendezvous = field(default_factory=SiteRendezvous)
    devices: Devices = field(default_factory=Devices)
    binding: Binding = field(default_factory=Binding)
    environment: tuple[SiteVariable, ...] = ()
    modules: Modules = field(default_factory=Modules)
    commands: tuple[SiteCommand, ...] = ()
    containers: dict[str, Container] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    fabric: Fabric = field(default_factory=Fabric)
    filesystems: dict[str, FileSystem] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    probes: Probes = field(default_factory=Probes)
    bandwidth: tuple[Bandwidth, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    help: Help = field(default_factory=Help)
    sources: dict[str, Source] = field(default_factory=dict)
    facts: dict[str, str | Fact] = field(default_factory=dict)
    """Key → name of the source, or a table with the reason; holds for everything below the key."""

    unpublished: dict[str, Unpublished] = field(default_factory=dict)
    unverified: tuple[Offer, ...] = ()
