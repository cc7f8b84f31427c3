"""The parts of a profile that say how ranks start: launchers, variables, modules, images."""

from typing import Annotated, Literal

from msgspec import Meta, field

from muster.sites.schema_words import (
    Count,
    EnvName,
    Flag,
    ImageEngine,
    Launcher,
    Number,
    Optional,
    Part,
    Text,
    When,
    Word,
)

# ---------------------------------------------------------------- how ranks start


class SiteLaunch(Part, frozen=True, kw_only=True):
    """How the ranks start inside the allocation."""

    allowed: Optional[tuple[Launcher, ...]] = None
    preferred: Optional[Launcher] = None
    refused: dict[str, Text] = field(default_factory=dict)
    """Launcher → why not here."""

    mpi: Optional[str] = None
    """srun --mpi for programs that use MPI; ranks of torch need none."""

    mpi_types: Optional[tuple[str, ...]] = None
    mpi_by_stack: dict[str, str] = field(default_factory=dict)
    """Software stack → srun --mpi."""

    srun: Optional[tuple[Flag, ...]] = None
    """Flags of every step, whole."""

    srun_by_stack: dict[str, tuple[Flag, ...]] = field(default_factory=dict)
    stack_by_flag: dict[str, str] = field(default_factory=dict)
    """A flag of srun or sbatch that brings a software stack, as `--uenv` does → that stack."""

    mpirun: Optional[tuple[Word, ...]] = None
    """Words after mpirun: mapping, binding, --mca."""

    mpirun_starts_with: Optional[Literal["slurm", "ssh"]] = None
    """How mpirun reaches the other hosts; over ssh the environment has to be passed with -x."""

    kills_on_bad_exit: Optional[bool] = None
    """Whether the site's slurm.conf sets KillOnBadExit."""

    slurm: Optional[str] = None
    """Version seen there."""

    concurrent_steps_max: Optional[Count] = None

    queues_from_jobs: Optional[bool] = None
    """Whether a job can queue another one: sbatch works on the compute nodes. Where it does not, `submit --until-done`
    queues all links at once."""

    hang_s: Optional[Count] = None
    """Seconds without a sign of life after which a queued job hangs, where nobody gives --hang; the default is 1800."""


class SiteRendezvous(Part, frozen=True, kw_only=True):
    """Where the ranks meet."""

    host: Optional[Literal["as-is", "suffix", "interface", "numeric"]] = None
    suffix: Optional[str] = None
    """For `suffix`: what is put behind the host's name."""

    interface: Optional[str] = None
    """For `interface`: the network whose address is taken."""

    port_low: Optional[Annotated[int, Meta(ge=1024, le=65535, description="a port from 1024 to 65535")]] = None
    port_high: Optional[Annotated[int, Meta(ge=1024, le=65535, description="a port from 1024 to 65535")]] = None
    reserved_ports: Optional[bool] = None
    """Slurm reserves a port for a step (MpiParams=ports=…)."""

    published_port: Optional[Text] = None
    """What the site's own examples do."""

    ipv4_only: Optional[bool] = None


class Devices(Part, frozen=True, kw_only=True):
    """Which GPUs a rank sees, and which it uses."""

    visibility: Optional[Literal["all", "one"]] = None
    variable: Optional[EnvName] = None
    """The variable that narrows it."""

    cut_by_site: Optional[bool] = None
    """True: the site's srun shows each task one GPU, unless `variable` is set before it."""

    order: Optional[tuple[Number, ...]] = None
    """All GPUs, in the order in which local ranks should take them; none: 0, 1, 2 …"""

    site_advice: Optional[Text] = None
    """What the site says where that differs, and why Muster shows all."""


class Binding(Part, frozen=True, kw_only=True):
    """Which cores a rank gets."""

    kind: Optional[Literal["none", "mask", "map", "closest"]] = None
    needs_whole_node: Optional[bool] = None
    site_example: Optional[Text] = None


class SiteVariable(Part, frozen=True, kw_only=True):
    """One environment variable of the ranks."""

    name: EnvName
    value: Optional[str] = None
    """{job_id}, {run_dir} and {node_tmp} stand for what only the job knows; `$` stays `$`."""

    value_of: Optional[EnvName] = None
    """The variable of the job whose value this one takes, where modules decide it."""

    prepended: bool = False
    """True: the value goes before the list that the variable holds already, as in LD_LIBRARY_PATH."""

    unset: bool = False
    when: Optional[When] = None
    required: bool = False
    """True: without it the job is wrong, slow or dead; a user who sets it otherwise is told."""

    verdict: Literal["kept", "dropped", "offered"] = "kept"
    """kept: set when `when` holds; dropped: known, and not set, for the reason; offered: set when asked for."""

    conflicts: tuple[EnvName, ...] = ()
    """Variables that may not be set beside it."""

    reason: Text
    short: Optional[Text] = None
    """The reason in eight words or fewer, for the line of the script; needed where the reason itself is longer."""

    source: Optional[str] = None


class Modules(Part, frozen=True, kw_only=True):
    """The module system."""

    system: Optional[Literal["lmod", "tmod", "none"]] = None
    where: Optional[Literal["everywhere", "compute"]] = None
    """Where the module command exists."""

    init: Optional[tuple[str, ...]] = None
    """Files to read before `module` is there."""

    purge: Optional[bool] = None
    use: Optional[tuple[str, ...]] = None
    load: Optional[tuple[str, ...]] = None
    """What a torch job without a container loads; `A|B`: the first of these that the site has."""

    torch: Optional[tuple[str, ...]] = None
    """What brings Python and torch, for a job that names no environment, module or image; `A|B` as in `load`."""

    by_kind: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of node → modules that stand before all others, where each kind has a tree of its own."""

    catalogue: Optional[tuple[str, ...]] = None
    """Other modules that are known to be there."""

    renamed: dict[str, str] = field(default_factory=dict)
    """A module that is gone → the one that is there."""


class SiteCommand(Part, frozen=True, kw_only=True):
    """One command of the job besides the user's."""

    argv: tuple[Word, ...]
    where: Literal["login", "batch", "node", "task"]
    """login: before submitting; batch: once, before the step; node: once per node before its ranks; task: in each."""

    when: Optional[When] = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: Optional[str] = None


class Bind(Part, frozen=True, kw_only=True):
    """A path of the host that a container needs."""

    path: str
    to: Optional[str] = None
    when: Optional[When] = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: Optional[str] = None


class Container(Part, frozen=True, kw_only=True):
    """One container engine."""

    engine: ImageEngine
    preferred: bool = False
    verb: Optional[Literal["exec", "run"]] = None
    flags: Optional[tuple[Word, ...]] = None
    gpu_flag: bool = True
    """False: the engine's own flag for GPUs (--nv, --rocm) does harm there."""

    entrypoint_stacks: tuple[str, ...] = ()
    """Software stacks of images whose entrypoint has to run."""

    srun: Optional[tuple[Flag, ...]] = None
    modules: Optional[tuple[str, ...]] = None
    module_use: Optional[tuple[str, ...]] = None
    stack: Optional[str] = None
    """The software stack of an image of which the site says nothing else."""

    binds: tuple[Bind, ...] = ()
    hooks: dict[str, str] = field(default_factory=dict)
    """Annotations of the engine."""

    hooks_by_stack: dict[str, dict[str, str]] = field(default_factory=dict)
    definition: Optional[Text] = None
    """How an image is described."""

    build: tuple[Text, ...] = ()
    """How an image is made there."""

    cache: Optional[EnvName] = None
    """Variable that moves its cache."""

    notes: tuple[Text, ...] = ()
    source: Optional[str] = None


class Image(Part, frozen=True, kw_only=True):
    """An image that the site keeps."""

    path: str
    newest: Optional[str] = None
    """Pattern of the files of which the newest is taken where `path` is not there."""

    engine: Optional[str] = None
    stack: Optional[str] = None
    """The name that `when.stacks` uses."""

    torch: Optional[str] = None
    gpu_library: Optional[Text] = None
    verb: Optional[Literal["exec", "run"]] = None
    activation: Optional[tuple[Word, ...]] = None
    arch: Optional[Literal["x86_64", "aarch64"]] = None
    reason: Optional[Text] = None
    gone: bool = False
    """True: an older text names it, and it is no longer there."""

    source: Optional[str] = None
