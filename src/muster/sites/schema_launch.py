"""The parts of a profile that say how ranks start: launchers, variables, modules, images."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from muster.sites.schema_words import (
    Count,
    EnvName,
    Flag,
    ImageEngine,
    Launcher,
    Number,
    Part,
    Text,
    When,
    Word,
)

# ---------------------------------------------------------------- how ranks start


class SiteLaunch(Part, frozen=True, kw_only=True):
    """How the ranks start inside the allocation."""

    allowed: tuple[Launcher, ...] | None = None
    preferred: Launcher | None = None
    refused: dict[str, Text] = field(default_factory=dict)
    """Launcher → why not here."""

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

    slurm: str | None = None
    """Version seen there."""

    concurrent_steps_max: Count | None = None

    queues_from_jobs: bool | None = None
    """Whether a job can queue another one: sbatch works on the compute nodes. Where it does not, `submit --until-done`
    queues all links at once."""

    hang_s: Count | None = None
    """Seconds without a sign of life after which a queued job hangs, where nobody gives --hang; the default is 1800."""


class SiteRendezvous(Part, frozen=True, kw_only=True):
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


class Devices(Part, frozen=True, kw_only=True):
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


class Binding(Part, frozen=True, kw_only=True):
    """Which cores a rank gets."""

    kind: Literal["none", "mask", "map", "closest"] | None = None
    needs_whole_node: bool | None = None
    site_example: Text | None = None


class SiteVariable(Part, frozen=True, kw_only=True):
    """One environment variable of the ranks."""

    name: EnvName
    value: str | None = None
    """{job_id}, {run_dir} and {node_tmp} stand for what only the job knows; `$` stays `$`."""

    value_of: EnvName | None = None
    """The variable of the job whose value this one takes, where modules decide it."""

    prepended: bool = False
    """True: the value goes before the list that the variable holds already, as in LD_LIBRARY_PATH."""

    unset: bool = False
    when: When | None = None
    required: bool = False
    """True: without it the job is wrong, slow or dead; a user who sets it otherwise is told."""

    verdict: Literal["kept", "dropped", "offered"] = "kept"
    """kept: set when `when` holds; dropped: known, and not set, for the reason; offered: set when asked for."""

    conflicts: tuple[EnvName, ...] = ()
    """Variables that may not be set beside it."""

    reason: Text
    short: Text | None = None
    """The reason in eight words or fewer, for the line of the script; needed where the reason itself is longer."""

    source: str | None = None


class Modules(Part, frozen=True, kw_only=True):
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


class SiteCommand(Part, frozen=True, kw_only=True):
    """One command of the job besides the user's."""

    argv: tuple[Word, ...]
    where: Literal["login", "batch", "node", "task"]
    """login: before submitting; batch: once, before the step; node: once per node before its ranks; task: in each."""

    when: When | None = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: str | None = None


class Bind(Part, frozen=True, kw_only=True):
    """A path of the host that a container needs."""

    path: str
    to: str | None = None
    when: When | None = None
    verdict: Literal["kept", "dropped", "offered"] = "kept"
    reason: Text
    source: str | None = None


class Container(Part, frozen=True, kw_only=True):
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


class Image(Part, frozen=True, kw_only=True):
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
