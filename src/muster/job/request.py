"""The request: what a person asks for. One field is one option, one key of the settings files, one help line.

The field's default is what holds when nobody says anything; `None` means "the site or the arithmetic decides".
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from muster.errors import RequestError
from muster.units import parse_memory_mib, parse_walltime_s, shown, whole_number

__all__ = ["LAUNCHERS", "WIREUPS", "Option", "Request", "options_of"]

LAUNCHERS = ("auto", "srun", "torchrun", "mpirun", "mpirun+torchrun", "horovod", "local")
# The methods of muster.world(), which this side does not load.
WIREUPS = (
    "auto",
    "env",
    "nccl-openmpi",
    "nccl-slurm",
    "nccl-slurm-pmi",
    "nccl-mpi",
    "nccl-file",
    "mpi",
    "gloo",
    "dummy",
)


class Option(msgspec.Struct, frozen=True):
    """How a field of the request is written on the command line and in a settings file."""

    flags: tuple[str, ...]
    help: str
    parse: Callable[[str], Any]
    metavar: str | None
    repeated: bool
    group: str
    choices: tuple[str, ...] | None = None

    @property
    def is_switch(self) -> bool:
        return self.metavar is None


def _text(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise RequestError(f"{value!r} holds a line break or another control character", hint="write it on one line")
    return value


def _count(value: str) -> int:
    number = whole_number(value)
    if number is None or number < 1:
        raise RequestError(f"{shown(value)} is not a count", hint="a whole number from 1 up")
    return number


def _count_or_none(value: str) -> int:
    number = whole_number(value)
    if number is None:
        raise RequestError(f"{shown(value)} is not a count", hint="a whole number from 0 up")
    return number


def _port(value: str) -> int:
    number = whole_number(value)
    if number is None or not 1024 <= number <= 65535:
        raise RequestError(f"{shown(value)} is not a port", hint="a number from 1024 to 65535")
    return number


def _port_range(value: str) -> tuple[int, int]:
    low, dash, high = value.partition("-")
    if not dash or _port(low) >= _port(high):
        raise RequestError(f"{value!r} is not a range of ports", hint="write it as LOW-HIGH, for example 20000-21000")
    return int(low), int(high)


def _walltime(value: str) -> str:
    parse_walltime_s(value)
    return value.strip()


def _memory(value: str) -> str:
    parse_memory_mib(value)
    return value.strip().upper()


def _assignment(value: str) -> str:
    name, _, _ = value.partition("=")
    if not name.isidentifier() or not name.isascii():
        raise RequestError(f"{value!r} does not begin with a variable's name", hint="write KEY=VALUE, or KEY alone")
    return value


def _site_fact(value: str) -> str:
    key, equals, _ = value.partition("=")
    if not equals or not all(key.split(".")):
        raise RequestError(f"{value!r} is not KEY=VALUE", hint="a key as muster site show prints it: memory.mem=400G")
    return value


def _variable(value: str) -> str:
    if not value.isidentifier() or not value.isascii():
        raise RequestError(f"{value!r} is not a variable's name", hint="letters, digits and _ only")
    return value


def _option(  # the one place that gives an option its shape
    *flags: str,
    help: str,  # noqa: A002  # argparse's own word for it
    parse: Callable[[str], Any] = _text,
    metavar: str | None = None,
    repeated: bool = False,
    group: str = "what to run on",
    choices: tuple[str, ...] | None = None,
) -> Option:
    return Option(flags, help, parse, metavar, repeated, group, choices)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can ask of `run`, `submit`, `plan` and `shell`."""

    command: tuple[str, ...]
    """The user's command, word for word."""

    origins: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Where each given value came from: an option as typed, or a settings file and its line."""

    nodes: Annotated[int | None, _option("-N", "--nodes", metavar="N", parse=_count, help="number of nodes")] = None
    gpus_per_node: Annotated[
        int | None,
        _option("-g", "--gpus-per-node", metavar="N", parse=_count_or_none, help="logical GPUs of each node; 0: none"),
    ] = None
    ntasks_per_node: Annotated[
        int | None,
        _option(
            "--ntasks-per-node",
            "--nproc-per-node",
            metavar="N",
            parse=_count,
            help="ranks of each node; one per GPU if not given",
        ),
    ] = None
    cpus_per_task: Annotated[
        int | None, _option("-c", "--cpus-per-task", metavar="N", parse=_count, help="CPUs of each rank")
    ] = None
    mem: Annotated[
        str | None, _option("--mem", metavar="SIZE", parse=_memory, help="memory of each node, for example 64G")
    ] = None
    gres: Annotated[
        str | None, _option("--gres", metavar="LIST", help="generic resources as Slurm spells them: gpu:volta:2")
    ] = None
    exclusive: Annotated[bool, _option("--exclusive", help="whole nodes, shared with nobody")] = False
    time: Annotated[
        str | None, _option("-t", "--time", metavar="TIME", parse=_walltime, help="time limit, in any Slurm form")
    ] = None
    account: Annotated[str | None, _option("-A", "--account", metavar="NAME", help="account that pays")] = None
    partition: Annotated[str | None, _option("-p", "--partition", metavar="NAME", help="partition")] = None
    qos: Annotated[str | None, _option("-q", "--qos", metavar="NAME", help="quality of service")] = None
    trial: Annotated[bool, _option("--trial", help="a short trial: the site's queue for them, where it has one")] = (
        False
    )
    constraint: Annotated[str | None, _option("-C", "--constraint", metavar="LIST", help="node features")] = None
    nodelist: Annotated[str | None, _option("-w", "--nodelist", metavar="LIST", help="these nodes")] = None
    exclude: Annotated[str | None, _option("-x", "--exclude", metavar="LIST", help="not these nodes")] = None
    distribution: Annotated[
        str | None,
        _option("-m", "--distribution", metavar="HOW", help="order of ranks over nodes: block, cyclic or plane=N"),
    ] = None

    job_name: Annotated[
        str | None, _option("-J", "--job-name", metavar="NAME", group="the job", help="name of the job")
    ] = None
    output: Annotated[
        str | None,
        _option("-o", "--output", metavar="FILE", group="the job", help="where the output goes; %%x name, %%j id"),
    ] = None
    error: Annotated[
        str | None, _option("-e", "--error", metavar="FILE", group="the job", help="where the errors go")
    ] = None
    chdir: Annotated[
        str | None, _option("-D", "--chdir", metavar="DIR", group="the job", help="working directory of the ranks")
    ] = None
    snapshot: Annotated[
        bool,
        _option(
            "--snapshot",
            group="the job",
            help="submit: the job runs from a copy of the project as it is now, of what git does not ignore",
        ),
    ] = False
    sbatch: Annotated[
        tuple[str, ...],
        _option(
            "--sbatch", metavar="FLAG", repeated=True, group="the job", help="one more flag for the allocation, whole"
        ),
    ] = ()
    srun: Annotated[
        tuple[str, ...],
        _option("--srun", metavar="FLAG", repeated=True, group="the job", help="one more flag for the step, whole"),
    ] = ()

    launcher: Annotated[
        str, _option("--launcher", metavar="NAME", group="how ranks start", choices=LAUNCHERS, help="|".join(LAUNCHERS))
    ] = "auto"
    mpi: Annotated[
        str | None,
        _option("--mpi", metavar="TYPE", group="how ranks start", help="process management for srun: pmi2, pmix, none"),
    ] = None
    wireup: Annotated[
        str | None,
        _option(
            "--wireup",
            metavar="METHOD",
            group="how ranks start",
            choices=WIREUPS,
            help="where muster.world() takes its identity from: " + "|".join(WIREUPS),
        ),
    ] = None
    visibility: Annotated[
        str | None,
        _option(
            "--visibility",
            metavar="HOW",
            group="how ranks start",
            choices=("all", "one"),
            help="all: every rank sees all GPUs of its node; one: its own alone (set_device(LOCAL_RANK) then fails)",
        ),
    ] = None
    node_prologue: Annotated[
        str | None,
        _option(
            "--node-prologue",
            metavar="COMMAND",
            group="how ranks start",
            help="run once on every node before its ranks; split as a shell splits words",
        ),
    ] = None
    check: Annotated[
        bool,
        _option(
            "--check",
            group="how ranks start",
            help="look at the nodes and the ways between them first (seconds); a broken one is named, and the run ends",
        ),
    ] = False
    master_addr: Annotated[
        str | None,
        _option(
            "--master-addr",
            metavar="HOST",
            group="how ranks start",
            help="address of rank 0 instead of its node's name",
        ),
    ] = None
    master_port: Annotated[
        int | None,
        _option("--master-port", metavar="PORT", parse=_port, group="how ranks start", help="port of rank 0"),
    ] = None
    port_range: Annotated[
        tuple[int, int] | None,
        _option(
            "--port-range",
            metavar="LOW-HIGH",
            parse=_port_range,
            group="how ranks start",
            help="ports a firewall lets through",
        ),
    ] = None
    grace: Annotated[
        int,
        _option(
            "--grace",
            metavar="SECONDS",
            parse=_count,
            group="how ranks start",
            help="between asking the other ranks to end and ending them (10)",
        ),
    ] = 10

    env: Annotated[
        tuple[str, ...],
        _option(
            "--env",
            metavar="KEY[=VALUE]",
            parse=_assignment,
            repeated=True,
            group="environment",
            help="set a variable in every rank; KEY alone passes yours on; "
            "{job_id}, {run_dir}, {node_tmp} are filled in",
        ),
    ] = ()
    unset_env: Annotated[
        tuple[str, ...],
        _option(
            "--unset-env",
            metavar="KEY",
            parse=_variable,
            repeated=True,
            group="environment",
            help="take a variable away",
        ),
    ] = ()
    export: Annotated[
        str,
        _option(
            "--export",
            metavar="HOW",
            group="environment",
            choices=("NONE", "ALL"),
            help="NONE: the ranks get what the plan shows; ALL: your whole environment",
        ),
    ] = "NONE"
    module: Annotated[
        tuple[str, ...],
        _option(
            "--module", metavar="NAME", repeated=True, group="environment", help="load a module before the ranks start"
        ),
    ] = ()
    module_use: Annotated[
        tuple[str, ...],
        _option(
            "--module-use", metavar="DIR", repeated=True, group="environment", help="a directory with more modules"
        ),
    ] = ()
    stack: Annotated[
        str | None,
        _option(
            "--stack",
            metavar="NAME",
            group="environment",
            help="software stack, by the site's name for it; seen from --image and --srun if not given",
        ),
    ] = None
    workload: Annotated[
        tuple[str, ...],
        _option(
            "--workload",
            metavar="NAME",
            repeated=True,
            group="environment",
            help="what only some programs need, by the site's name for it; muster site show lists them",
        ),
    ] = ()
    venv: Annotated[
        str | None,
        _option(
            "--venv",
            metavar="DIR",
            group="environment",
            help="virtual environment; the active one if not given, 'none': none",
        ),
    ] = None
    conda: Annotated[
        str | None,
        _option(
            "--conda",
            metavar="ENV",
            group="environment",
            help="conda environment: its folder, or its name where conda keeps it",
        ),
    ] = None
    environment: Annotated[
        str | None,
        _option(
            "--with",
            metavar="WHICH",
            group="environment",
            choices=("image", "venv", "image+venv", "conda", "modules"),
            help="which of those that are named: image, venv, image+venv (this in that), conda; modules: none",
        ),
    ] = None
    image: Annotated[
        str | None,
        _option(
            "--image",
            metavar="IMAGE",
            group="environment",
            help="run in a .sif, sandbox directory, .sqsh, docker://…, EDF name or file, or site:NAME",
        ),
    ] = None
    engine: Annotated[
        str | None,
        _option(
            "--engine",
            metavar="NAME",
            group="environment",
            help="container engine: apptainer, singularity, pyxis, cscs; the site's if not given",
        ),
    ] = None
    bind: Annotated[
        tuple[str, ...],
        _option(
            "--bind",
            metavar="SRC[:DST[:ro]]",
            repeated=True,
            group="environment",
            help="let the image see a path of the host",
        ),
    ] = ()

    stage_env: Annotated[
        bool,
        _option(
            "--stage-env",
            group="staging",
            help="the environment, its Python and the script's folder (or the image's file) onto the nodes' own disks",
        ),
    ] = False
    stage: Annotated[
        tuple[str, ...],
        _option(
            "--stage",
            metavar="DATA",
            repeated=True,
            group="staging",
            help="a folder or file onto the nodes' own disks, seen under its own name",
        ),
    ] = ()
    stage_out: Annotated[
        str | None,
        _option(
            "--stage-out",
            metavar="DIR",
            group="staging",
            help="what ranks write to DIR stays on their node's disk, and is brought to DIR when they end",
        ),
    ] = None

    site: Annotated[
        str | None, _option("--site", metavar="NAME", group="where", help="site profile; detected if not given")
    ] = None
    site_set: Annotated[
        tuple[str, ...],
        _option(
            "--site-set",
            metavar="KEY=VALUE",
            parse=_site_fact,
            repeated=True,
            group="where",
            help="another value of the site's profile, for this command: memory.mem=400G",
        ),
    ] = ()
    facts: Annotated[
        str | None, _option("--facts", metavar="FILE", group="where", help="facts of a cluster, saved by a probe")
    ] = None
    here: Annotated[bool, _option("--here", group="where", help="on this machine, without Slurm")] = False
    no_label: Annotated[bool, _option("--no-label", group="where", help="do not put the rank before each line")] = False
    per_rank_files: Annotated[
        bool, _option("--per-rank-files", group="where", help="one output file for each rank, not for each node")
    ] = False

    def origin(self, name: str) -> str:
        """Where the value of a field came from, in words."""
        return self.origins.get(name, "the default")

    def given(self, name: str) -> bool:
        """Whether somebody asked for this value."""
        return name in self.origins


def options_of() -> dict[str, Option]:
    """The options by field name, in the order of the help page."""
    return {
        name: kind.__metadata__[0] for name, kind in Request.__annotations__.items() if hasattr(kind, "__metadata__")
    }
