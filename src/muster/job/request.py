"""The request: what a person asks for. One field is one option, one key of the settings files, one help line.

The field's default is what holds without a request; `None` means "the site or the arithmetic decides".
"""

from collections.abc import Mapping
from typing import Annotated, Any, Optional

import msgspec

from muster.images import engines_in_options
from muster.images.reference import ImageReference
from muster.job.option import (
    Option,
    OriginKind,
    ValueOrigin,
    option,
    parse_assignment,
    parse_count,
    parse_gpus,
    parse_host,
    parse_image,
    parse_lead,
    parse_memory,
    parse_port,
    parse_port_range,
    parse_signal,
    parse_silence,
    parse_site_fact,
    parse_variable,
    parse_walltime,
)
from muster.launchers import TYPED_NAMES, WIREUPS
from muster.units import Memory, Walltime


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can ask of `run`, `submit`, `plan` and `shell`."""

    command: tuple[str, ...]
    """The user's command, word for word."""

    origins: Mapping[str, ValueOrigin] = msgspec.field(default_factory=dict[str, ValueOrigin])
    """Where each given value came from: an option as typed, or a settings file and its line."""

    nodes: Annotated[
        Optional[int],
        option(
            "-N",
            "--nodes",
            "--nnodes",
            metavar="N",
            parse=parse_count(1, 100_000),
            is_common=True,
            help="number of nodes",
        ),
    ] = None
    gpus_per_node: Annotated[
        Optional[int],
        option(
            "-g",
            "--gpus-per-node",
            metavar="N",
            parse=parse_gpus,
            is_common=True,
            help="GPUs on each node (as Slurm counts them); 0: none",
        ),
    ] = None
    ntasks_per_node: Annotated[
        Optional[int],
        option(
            "--ntasks-per-node",
            "--nproc-per-node",
            metavar="N",
            parse=parse_count(1, 65_533),
            is_common=True,
            help="ranks on each node (default: one for each GPU)",
        ),
    ] = None
    cpus_per_task: Annotated[
        Optional[int],
        option(
            "-c",
            "--cpus-per-task",
            metavar="N",
            parse=parse_count(1, 65_533),
            help="CPUs for each rank (default: its share of the node's cores)",
        ),
    ] = None
    gres: Annotated[
        Optional[str],
        option("--gres", metavar="LIST", help="generic resources of each node, in Slurm's form: gpu:volta:2"),
    ] = None
    account: Annotated[
        Optional[str],
        option(
            "-A", "--account", metavar="NAME", directive="account", is_common=True, help="account that pays for the job"
        ),
    ] = None
    partition: Annotated[
        Optional[str],
        option(
            "-p",
            "--partition",
            metavar="NAME",
            directive="partition",
            is_common=True,
            help="partition, which is the queue of the job",
        ),
    ] = None
    qos: Annotated[
        Optional[str],
        option("-q", "--qos", metavar="NAME", directive="qos", help="quality of service (QOS) of the job"),
    ] = None
    trial: Annotated[
        bool, option("--trial", help="send the job to the site's queue for short trials, if there is one")
    ] = False
    constraint: Annotated[
        Optional[str],
        option(
            "-C",
            "--constraint",
            metavar="LIST",
            directive="constraint",
            help="features that every node must have: a100",
        ),
    ] = None
    nodelist: Annotated[
        Optional[str],
        option("-w", "--nodelist", metavar="LIST", directive="nodelist", help="nodes that the job must get: node[1-4]"),
    ] = None
    exclude: Annotated[
        Optional[str],
        option("-x", "--exclude", metavar="LIST", directive="exclude", help="nodes that the job must not get: node7"),
    ] = None
    mem: Annotated[
        Optional[Memory],
        option("--mem", metavar="SIZE", parse=parse_memory, directive="mem", help="memory of each node: 64G"),
    ] = None
    exclusive: Annotated[
        bool, option("--exclusive", directive="exclusive", help="take whole nodes, which no other job shares")
    ] = False
    time: Annotated[
        Optional[Walltime],
        option(
            "-t",
            "--time",
            metavar="TIME",
            parse=parse_walltime,
            directive="time",
            is_common=True,
            help="time limit: 30 (minutes), 2:00:00, 1-12, 90m, 12h, 2d",
        ),
    ] = None
    distribution: Annotated[
        Optional[str],
        option(
            "-m",
            "--distribution",
            metavar="HOW",
            help="order of the ranks: block (one node after the other), cyclic (around all nodes) or plane=N",
        ),
    ] = None

    job_name: Annotated[
        Optional[str], option("-J", "--job-name", metavar="NAME", group="the job", help="name of the job")
    ] = None
    output: Annotated[
        Optional[str],
        option(
            "-o",
            "--output",
            metavar="FILE",
            group="the job",
            help="file for the output: %x-%j.log (%x: the job's name, %j: its id)",
        ),
    ] = None
    error: Annotated[
        Optional[str],
        option(
            "-e", "--error", metavar="FILE", group="the job", help="file for the errors (default: that of the output)"
        ),
    ] = None
    chdir: Annotated[
        Optional[str], option("-D", "--chdir", metavar="DIR", group="the job", help="working directory of the ranks")
    ] = None
    snapshot: Annotated[
        bool,
        option(
            "--snapshot",
            group="the job",
            help="run the job from a copy of the project as it is now, without the files that git ignores",
        ),
    ] = False
    requeue: Annotated[
        bool,
        option(
            "--requeue",
            directive="requeue",
            group="the job",
            help="run the job again when a node fails or the job is preempted; each run keeps its own logs",
        ),
    ] = False
    hang: Annotated[
        Optional[int],
        option(
            "--hang",
            metavar="TIME",
            parse=parse_silence,
            group="the job",
            help="report which rank hangs, and where, when no rank goes on for this time: 10m; off: never "
            "(default: 30m for submit, off for run)",
        ),
    ] = None
    stacks_ready: Annotated[
        bool,
        option(
            "--stacks-ready",
            group="the job",
            help="let each rank write its own call stack, for nodes where no other process may read it (default: "
            "off): --stacks-ready --hang 10m",
        ),
    ] = False
    sweep: Annotated[
        Optional[str],
        option(
            "--sweep",
            metavar="FILE",
            group="the job",
            help="run one task of a job array for each row of a CSV table; {COLUMN} in the command becomes the "
            "row's value (default: one run): --sweep grid.csv -- python train.py --lr {lr}",
        ),
    ] = None
    sweep_at_once: Annotated[
        Optional[int],
        option(
            "--sweep-at-once",
            metavar="N",
            parse=parse_count(1, 1_000_000),
            group="the job",
            help="run at most this many rows of --sweep at the same time (default: as many as fit)",
        ),
    ] = None
    sweep_per_node: Annotated[
        Optional[int],
        option(
            "--sweep-per-node",
            metavar="N",
            parse=parse_count(1, 4096),
            group="the job",
            help="run this many rows of --sweep beside each other on one node; -g, -c, --mem and --ntasks-per-node "
            "are then the size of one row (default: a job for each row): --sweep-per-node 4 -g 1",
        ),
    ] = None
    sbatch: Annotated[
        tuple[str, ...],
        option(
            "--sbatch",
            metavar="FLAG",
            repeated=True,
            whole_flags=True,
            group="the job",
            help="add a flag of sbatch for the job: --sbatch=--nice=5",
        ),
    ] = ()
    srun: Annotated[
        tuple[str, ...],
        option(
            "--srun",
            metavar="FLAG",
            repeated=True,
            whole_flags=True,
            group="the job",
            help="add a flag of srun for the step: --srun=--label",
        ),
    ] = ()

    torchrun: Annotated[
        tuple[str, ...],
        option(
            "--torchrun",
            metavar="FLAG",
            repeated=True,
            whole_flags=True,
            group="how ranks start",
            help="add a flag of torchrun, or of ft_launcher with --launcher ft: --torchrun=--max-restarts=3",
        ),
    ] = ()
    launcher: Annotated[
        str,
        option(
            "--launcher",
            metavar="NAME",
            group="how ranks start",
            choices=TYPED_NAMES,
            help=f"program that starts the ranks (default: auto): {', '.join(TYPED_NAMES)}",
        ),
    ] = "auto"
    mpi: Annotated[
        Optional[str],
        option(
            "--mpi",
            metavar="TYPE",
            group="how ranks start",
            help="how srun starts ranks that use MPI (default: the site's): pmi2, pmix, none",
        ),
    ] = None
    wireup: Annotated[
        Optional[str],
        option(
            "--wireup",
            metavar="METHOD",
            group="how ranks start",
            choices=WIREUPS,
            help=f"how muster.world() finds its rank (default: the site's, else auto): {', '.join(WIREUPS)}",
        ),
    ] = None
    visibility: Annotated[
        Optional[str],
        option(
            "--visibility",
            metavar="HOW",
            group="how ranks start",
            choices=("all", "one"),
            help="GPUs that a rank sees: all of its node, or only its own one; with one, set_device(LOCAL_RANK) "
            "fails (default: the site's, else all)",
        ),
    ] = None
    node_prologue: Annotated[
        Optional[str],
        option(
            "--node-prologue",
            metavar="COMMAND",
            group="how ranks start",
            help='run a command once on each node before its ranks start: "mkdir -p /tmp/cache"',
        ),
    ] = None
    check: Annotated[
        bool,
        option(
            "--check",
            group="how ranks start",
            help="check the nodes and their network first, in seconds; end the run if one is broken",
        ),
    ] = False
    master_addr: Annotated[
        Optional[str],
        option(
            "--master-addr",
            metavar="HOST",
            parse=parse_host,
            group="how ranks start",
            help="host or address where the ranks meet (default: the name of the host of rank 0)",
        ),
    ] = None
    master_port: Annotated[
        Optional[int],
        option(
            "--master-port",
            metavar="PORT",
            parse=parse_port,
            group="how ranks start",
            help="port where the ranks meet (default: a free one)",
        ),
    ] = None
    port_range: Annotated[
        Optional[tuple[int, int]],
        option(
            "--port-range",
            metavar="LOW-HIGH",
            parse=parse_port_range,
            group="how ranks start",
            help="ports to choose from, for example those that a firewall lets through: 20000-21000",
        ),
    ] = None
    grace: Annotated[
        int,
        option(
            "--grace",
            metavar="SECONDS",
            parse=parse_count(1, 86_400),
            group="how ranks start",
            help="seconds that the other ranks get to end after one failed, before they are killed (default: 10)",
        ),
    ] = 10

    restart: Annotated[
        int,
        option(
            "--restart",
            metavar="N",
            parse=parse_count(0, 1000),
            group="until it is done",
            help="when a rank fails, start all ranks again in the same allocation, at most N times (default: 0)",
        ),
    ] = 0
    spares: Annotated[
        int,
        option(
            "--spares",
            metavar="K",
            parse=parse_count(0, 1000),
            group="until it is done",
            help="ask for K more nodes; they replace nodes that die, and the ranks start again (default: 0)",
        ),
    ] = 0
    checkpoint: Annotated[
        Optional[str],
        option(
            "--checkpoint",
            metavar="DIR",
            group="until it is done",
            help="folder where the script saves; each start gets the newest whole checkpoint as MUSTER_CHECKPOINT;"
            " %a is the task of an array: runs/%a",
        ),
    ] = None
    until_done: Annotated[
        bool,
        option(
            "--until-done",
            group="until it is done",
            help="go on in another job after a time limit, a preemption or a failed node, until the command ends "
            "by itself",
        ),
    ] = False
    links: Annotated[
        int,
        option(
            "--links",
            metavar="N",
            parse=parse_count(1, 1000),
            group="until it is done",
            help="most jobs of --until-done, with the first one (default: 20)",
        ),
    ] = 20
    save_before: Annotated[
        Optional[int],
        option(
            "--save-before",
            metavar="TIME",
            parse=parse_lead,
            group="until it is done",
            help="send a signal to the ranks this long before the time limit, and on preemption, so that they "
            "save; only ranks that handle it get it: 5m",
        ),
    ] = None
    save_signal: Annotated[
        str,
        option(
            "--save-signal",
            metavar="SIGNAL",
            parse=parse_signal,
            group="until it is done",
            help="the signal of --save-before (default: USR1): TERM",
        ),
    ] = "USR1"

    env: Annotated[
        tuple[str, ...],
        option(
            "--env",
            metavar="KEY[=VALUE]",
            parse=parse_assignment,
            repeated=True,
            group="environment",
            help="set a variable in every rank; KEY alone passes your value on; {job_id}, {run_dir} and {node_tmp}"
            " are filled in: --env OMP_NUM_THREADS=8",
        ),
    ] = ()
    unset_env: Annotated[
        tuple[str, ...],
        option(
            "--unset-env",
            metavar="KEY",
            parse=parse_variable,
            repeated=True,
            group="environment",
            help="remove a variable from every rank",
        ),
    ] = ()
    export: Annotated[
        str,
        option(
            "--export",
            metavar="HOW",
            group="environment",
            choices=("NONE", "ALL"),
            help="which of your variables the ranks get: NONE, only those that the plan shows (default), or ALL",
        ),
    ] = "NONE"
    module: Annotated[
        tuple[str, ...],
        option(
            "--module", metavar="NAME", repeated=True, group="environment", help="load a module before the ranks start"
        ),
    ] = ()
    module_use: Annotated[
        tuple[str, ...],
        option(
            "--module-use",
            metavar="DIR",
            repeated=True,
            group="environment",
            help="add a directory of modules, as module use does",
        ),
    ] = ()
    stack: Annotated[
        Optional[str],
        option(
            "--stack",
            metavar="NAME",
            group="environment",
            help="software stack of the site, by its name in the profile (default: it follows from --image and --srun)",
        ),
    ] = None
    workload: Annotated[
        tuple[str, ...],
        option(
            "--workload",
            metavar="NAME",
            repeated=True,
            group="environment",
            help="use settings of the site that only some programs need, by name; muster site show lists them",
        ),
    ] = ()
    venv: Annotated[
        Optional[str],
        option(
            "--venv",
            metavar="DIR",
            is_common=True,
            group="environment",
            help="folder of the virtual environment (default: the active one); none: use none",
        ),
    ] = None
    conda: Annotated[
        Optional[str],
        option(
            "--conda",
            metavar="ENV",
            group="environment",
            help="conda environment: its folder, or its name if conda keeps it",
        ),
    ] = None
    environment: Annotated[
        Optional[str],
        option(
            "--with",
            metavar="WHICH",
            group="environment",
            choices=("image", "venv", "image+venv", "conda", "modules"),
            help="which environment to use if several are named: image, venv, image+venv (the one inside the "
            "image), conda or modules",
        ),
    ] = None
    image: Annotated[
        Optional[ImageReference],
        option(
            "--image",
            metavar="IMAGE",
            parse=parse_image,
            is_common=True,
            group="environment",
            help="image to run in: FILE.sif, FILE.sqsh, a sandbox directory, docker://…, an EDF name or file, or "
            "site:NAME",
        ),
    ] = None
    engine: Annotated[
        Optional[str],
        option(
            "--engine",
            metavar="NAME",
            group="environment",
            help=f"container engine: {', '.join(engines_in_options())} (default: the site's)",
        ),
    ] = None
    bind: Annotated[
        tuple[str, ...],
        option(
            "--bind",
            metavar="SRC[:DST[:ro]]",
            repeated=True,
            group="environment",
            help="show a path of the host in the image: /data:/mnt:ro",
        ),
    ] = ()

    stage_env: Annotated[
        bool,
        option(
            "--stage-env",
            group="staging",
            help="copy the environment, its Python and the script's folder (or the image) to the nodes' own disks "
            "first",
        ),
    ] = False
    stage: Annotated[
        tuple[str, ...],
        option(
            "--stage",
            metavar="DATA",
            repeated=True,
            group="staging",
            help="copy a folder or file to the nodes' own disks first; ranks see it under its own name",
        ),
    ] = ()
    stage_out: Annotated[
        Optional[str],
        option(
            "--stage-out",
            metavar="DIR",
            group="staging",
            help="folder for results: ranks write to the nodes' own disks, and the files are copied to DIR when "
            "the ranks have ended",
        ),
    ] = None

    site: Annotated[
        Optional[str],
        option("--site", metavar="SITE", group="where", help="profile of the site (default: the one that is detected)"),
    ] = None
    site_set: Annotated[
        tuple[str, ...],
        option(
            "--site-set",
            metavar="KEY=VALUE",
            parse=parse_site_fact,
            repeated=True,
            group="where",
            help="change a value of the site's profile for this command: memory.mem=400G",
        ),
    ] = ()
    here: Annotated[
        bool, option("--here", group="where", is_common=True, help="run on this machine, without Slurm")
    ] = False
    no_label: Annotated[bool, option("--no-label", group="where", help="do not write the rank before each line")] = (
        False
    )
    per_rank_files: Annotated[
        bool,
        option("--per-rank-files", group="where", help="write one output file for each rank, not one for each node"),
    ] = False

    def origin(self, name: str) -> str:
        """Return where the value of a field came from, in words."""
        return self.origins[name].words() if name in self.origins else "the default"

    def set_by(self, name: str) -> str:
        """Return who has set a value that somebody asked for: what stands in /etc is not the user's."""
        is_of_machine = name in self.origins and self.origins[name].kind is OriginKind.SYSTEM_SETTINGS
        return "set by the administrator" if is_of_machine else "set by you"

    def given(self, name: str) -> bool:
        """Return whether somebody asked for this value."""
        return name in self.origins

    def typed(self, name: str) -> bool:
        """Return whether the value was typed for this launch. What a settings file says is for many launches."""
        return name in self.origins and self.origins[name].kind is OriginKind.OPTION


def options_of(kind: type[Request] = Request) -> dict[str, Option]:
    """Return the options by the name of their field, in the order of the fields."""
    annotations: dict[str, Any] = {}
    for parent in reversed(kind.__mro__):
        annotations |= getattr(parent, "__annotations__", {})
    return {
        name: annotation.__metadata__[0]
        for name, annotation in annotations.items()
        if hasattr(annotation, "__metadata__")
    }
