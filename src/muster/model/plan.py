"""The plan: everything that will happen, as a frozen value. Needed to write a script; nothing in it acts.

Each line of the script comes from something here that carries its `Reason`, so `plan --as why` can say why
the line is there and who wanted it. The file is long because the parts of a plan speak of each other.
"""

from __future__ import annotations

import msgspec

from muster.facts import SweepTable
from muster.model.finish import Finish
from muster.model.words import Word
from muster.older import StrEnum

SNAPSHOT_HERE = "here"
"""In the run directory: the link to the copy of the working directory."""


class Reason(msgspec.Struct, frozen=True):
    """Why something is in the plan, who wanted it, and where that is documented."""

    text: str
    origin: str = "muster"
    source: str | None = None
    checked: str | None = None
    key: str = ""
    """The key of the site's profile that says so; empty: no profile does."""

    short: str = ""
    """A few words for the line of the script."""

    @property
    def note(self) -> str:
        """Return the words beside the line of the script: the short form, or what a profile says in a few words."""
        is_short = bool(self.key) and len(self.text.split()) <= _FEW_WORDS
        return self.short or (self.text if is_short else "")


_FEW_WORDS = 8


class Engine(StrEnum):
    """Who starts the ranks."""

    SLURM = "slurm"
    HERE = "here"


class Output(StrEnum):
    """Where the ranks' output goes."""

    STREAM = "stream"  # to where the command was typed
    FILES = "files"  # one file per node under logs/
    RANK_FILES = "rank-files"  # one file per rank under logs/
    MOVED = "moved"  # to where the user's -o says


class Shape(msgspec.Struct, frozen=True):
    """Nodes × ranks × GPUs × CPUs, complete and consistent (plan/shape.py)."""

    nodes: int
    ntasks_per_node: int
    gpus_per_node: int
    cpus_per_task: int | None
    reasons: tuple[tuple[str, Reason], ...] = ()

    @property
    def ntasks(self) -> int:
        return self.nodes * self.ntasks_per_node


class Directive(msgspec.Struct, frozen=True):
    """One #SBATCH line; `value` None: the flag stands alone."""

    name: str
    value: str | None
    reason: Reason


class Flag(msgspec.Struct, frozen=True):
    """One word of a launcher's command line, with its reason."""

    word: Word
    reason: Reason


class Variable(msgspec.Struct, frozen=True):
    """One environment variable of the ranks; `value` None: unset; `pass_on`: the job's own is kept."""

    name: str
    value: Word | None
    reason: Reason
    pass_on: bool = False


class PreludeKind(StrEnum):
    """What a command before the step does."""

    MODULES_KNOWN = "modules known"  # makes the command `module` known
    MODULE_USE = "module use"
    MODULE_LOAD = "module load"
    MODULE = "module"  # any other command of `module`
    VENV = "venv"  # activates a virtual environment
    CONDA = "conda"  # activates a conda environment
    COMMAND = "command"  # the site's own


class Prelude(msgspec.Struct, frozen=True):
    """One command of the batch script before the step: modules, a virtual environment."""

    kind: PreludeKind
    words: tuple[Word, ...]
    reason: Reason
    failure: str
    """The sentence when it fails."""

    hint: str
    stops_itself: bool = False
    """Whether the command ends the job by itself with that sentence."""

    folder: str = ""
    """The folder of the environment that it activates; a node may not see it."""

    @property
    def shown(self) -> tuple[Word, ...]:
        """Return the command as a person would type it."""
        verbs = {PreludeKind.MODULE_USE: "use", PreludeKind.MODULE_LOAD: "load"}
        verb = verbs.get(self.kind)
        return self.words if verb is None else ("module", verb, *self.words[1:])

    @property
    def of_modules(self) -> bool:
        """Return whether it is about the cluster's modules."""
        return self.kind not in {PreludeKind.VENV, PreludeKind.CONDA, PreludeKind.COMMAND}


class ConditionKind(StrEnum):
    """What a condition of the script is about."""

    SIZE = "size"  # the job has another size than the script was written for
    CHECK = "check"  # the program that checks the nodes is there


class Condition(msgspec.Struct, frozen=True):
    """Something the script tests of what was granted; `holds` is shell we wrote, `sentence` what to say if not."""

    kind: ConditionKind
    holds: str
    sentence: str
    hint: str
    reason: Reason
    variable: str = ""
    """The variable that the sentence begins with, where it is about one."""

    decided_for: str = ""
    """The size, in words, for which that variable was decided."""


class Rendezvous(msgspec.Struct, frozen=True):
    """Where the ranks meet: the host of rank 0, and a port there."""

    address: str | None
    """The user's --master-addr; None: the first host of the step."""

    host_suffix: str
    rule: tuple[str, ...]
    """How the script finds the address where the name does not do: ("numeric",) or ("interface", NAME)."""

    port: int | None
    """The user's --master-port; None: chosen in the job."""

    port_low: int
    port_high: int
    reserved_ports: bool
    """Slurm reserves a port for the step (MpiParams=ports=… on this site)."""

    address_reason: Reason
    port_reason: Reason
    closed: bool = False
    """A door stands before the store: only the user's own processes on the job's nodes reach it."""

    range_asked: bool = False
    """The range is the user's --port-range: a port that Slurm reserves unasked is not taken."""


class Mount(msgspec.Struct, frozen=True):
    """A path of the host that a command in an image sees."""

    source: str
    target: str
    reason: Reason
    read_only: bool = False
    is_asked: bool = False
    """Whether the user named it; else the profile does, or the plan needs it."""

    @property
    def words(self) -> str:
        """Return the mount as most engines read it: SOURCE:TARGET, and :ro where nothing may be written."""
        return f"{self.source}:{self.target}" + (":ro" if self.read_only else "")


class ImageUse(msgspec.Struct, frozen=True):
    """The image a command runs in, and how; the engine is a name in `muster.images`."""

    engine: str
    image: str | None
    reason: Reason
    engine_reason: Reason = Reason("no image was asked for")
    program: str = ""
    """What starts an engine that is a program: its name, or its path where only this shell finds it."""

    registry_name: str = ""
    """The image's name in a registry, without docker://; empty: it is not of a registry."""

    verb: str = "exec"
    verb_reason: Reason = Reason("the command alone: the image's own run script does not start")
    kind: str | None = None
    flags: tuple[Flag, ...] = ()
    mounts: tuple[Mount, ...] = ()
    activation: tuple[str, ...] = ()
    """Shell words that make the image's environment ready, where it wants that."""

    annotations: tuple[tuple[str, str], ...] = ()
    entrypoint: bool = False
    """The image's own entrypoint has to run first."""

    container: str | None = None
    """The site's entry for the engine, by name."""

    library: str | None = None
    """Folder in the image that holds the rank library; None: it has its own."""

    ready: str | None = None
    """Folder in the image that is first on PYTHONPATH, so that ranks show their stacks by themselves."""

    asks_for_gpus: bool = False
    """GPUs are asked for, but their kind is not known: the node tells it."""

    compare_gpus: str = ""
    """Each node compares its image's torch with these GPUs (cuda, rocm; node: its own); empty: that is done."""

    venv: str | None = None
    """The virtual environment that the command has in the image."""

    venv_python: str | None = None
    """Its Python, 3.12, where each node has to see whether the image runs it; None: that is done."""

    may_be_unpacked: bool = False
    """Whether a node that may not mount it would unpack it."""

    ranks_start_inside: bool = False
    """Whether an agent starts the ranks in it: then it has to hold sh."""

    joins_mpi: bool = False
    """Whether its MPI has to hear what the MPI outside tells the ranks."""

    @property
    def name(self) -> str:
        """Return the image; empty: there is none."""
        return self.image or ""


class Staged(msgspec.Struct, frozen=True):
    """Something that every node gets a copy of, before the ranks start."""

    name: str
    """In words."""

    role: str
    """environment, image or data."""

    paths: tuple[str, ...]
    """Absolute and without links; one archive holds them all, and each is seen at its own name."""

    packed: str
    """The folder in which `run` and `submit` pack it; its file `latest` names what is to be used."""

    signs: tuple[str, ...]
    """Paths that are newer than the archive once it is out of date."""

    reason: Reason
    leave_out: tuple[str, ...] = ()
    """Paths in it that are not packed: the shared ones stay in view."""


class Staging(msgspec.Struct, frozen=True):
    """What lies on the nodes' own disks while the ranks run."""

    folder: Word
    folder_reason: Reason
    things: tuple[Staged, ...] = ()
    script: tuple[str, str] | None = None
    """The word of the command that is the script, and its path: it is started from a copy of its folder."""

    out: str | None = None
    """What ranks write there is brought there when they end."""

    word: str | None = None
    """The word of the command that names the image, or the folder of an environment that works under another name."""

    advice: tuple[tuple[str, Reason], ...] = ()


class Note(msgspec.Struct, frozen=True):
    """Something the user should know before pressing return; `warning` goes to stderr also without --as why."""

    text: str
    warning: bool = False


class Hang(msgspec.Struct, frozen=True):
    """How a job is watched that may hang."""

    after_s: int
    """So long no rank shows a sign of life."""

    python: str
    """Muster's own Python, which then looks at the ranks."""

    reason: Reason
    ends: bool = False
    """Whether the step ends then, as if a rank had failed."""

    folder: str | None = None
    """What this Python starts, where Muster is not installed in it."""


class Pack(msgspec.Struct, frozen=True):
    """How the rows of a sweep share one node."""

    rows: int
    """So many run beside each other in one job."""

    shape: Shape
    """What one row has of it."""

    mem: str | None = None
    """The memory of one row; None: the rows share that of the job."""


class ReadyKind(StrEnum):
    """By what a role counts as ready."""

    JOINED = "joined"  # the command began on each of its nodes
    PORT = "port"  # its port takes connections on each of its nodes
    ADDRESS = "address"  # an address answers with 2xx
    LOG = "log"  # a line with this text stands in its output
    COMMAND = "command"  # a command succeeds on its first node


class Ready(msgspec.Struct, frozen=True):
    """When a role counts as ready."""

    kind: ReadyKind
    within_s: int
    text: Word = ""
    """The address, the text of the line or the command."""


class Role(msgspec.Struct, frozen=True):
    """One of several programs in a job: where it runs, when it starts, and what its end means."""

    name: str
    plan: Plan
    """What starts its ranks: a launch over the role's nodes, as any other launch is."""

    first: int
    """Its first node among those of the job, counted from 0."""

    ready: Ready
    reasons: tuple[tuple[str, Reason], ...] = ()
    """What the division of the job decided for it."""

    after: tuple[str, ...] = ()
    """The roles that have to be ready before it starts."""

    is_main: bool = False
    """Whether its end ends the job, with its status."""

    ends_job: bool = True
    """Whether its failure ends the job."""

    scheme: str = "http"
    port: int | None = None
    """The port that its program insists on; None: one is chosen in the job."""

    ports: int = 1
    """How many ports in a row its program takes on each of its nodes."""

    part: int | None = None
    """The part of the job that has its nodes; None: all nodes of the job are of one kind."""

    @property
    def hosts_held(self) -> range:
        """Return the numbers of its nodes among those of the job."""
        return range(self.first, self.first + self.plan.shape.nodes)


class Plan(msgspec.Struct, frozen=True):
    """One launch, before it is an act."""

    version: str
    site: str
    engine: Engine
    command: tuple[Word, ...]
    typed: tuple[str, ...]
    """The command as it was typed."""

    working_directory: str
    snapshot: bool
    """The job runs from the copy of the project that submit lays into the run directory."""

    job_name: str
    shape: Shape
    launcher: str
    launcher_reason: Reason
    mpi: str | None
    wireup: str | None
    directives: tuple[Directive, ...]
    step_flags: tuple[Flag, ...]
    mpirun_flags: tuple[Flag, ...]
    prelude: tuple[Prelude, ...]
    variables: tuple[Variable, ...]
    conditions: tuple[Condition, ...]
    rendezvous: Rendezvous
    image: ImageUse
    output: Output
    label: bool
    within: bool
    """In an allocation that stands already: sizes are the request's, not the header's."""

    overlap: bool
    """Typed inside another step: the new step has to share its resources."""

    grace_s: int
    visibility: str
    node_prologue: tuple[str, ...]
    python: str
    rank_library: str | None
    """Put last on PYTHONPATH, so that `import muster` works; None: the environment has its own."""

    agent: tuple[str, ...] = ()
    """What starts the Python of torchrun's agents, where it is the command's own: uv run python; else `python`."""

    gate: tuple[str, ...] = ()
    """Stands before the command in every process that we start: the check, which becomes the command or ends."""

    staging: Staging | None = None
    notes: tuple[Note, ...] = ()

    hang: Hang | None = None
    """When a job without a sign of life hangs; None: never."""

    ready: str | None = None
    """Put first on PYTHONPATH, so that ranks show their stacks by themselves; None: they do not, or are in an image."""

    may_be_alone: bool = False
    """The source does not show whether the ranks meet: it is looked at when they have ended."""

    cpu_flags: tuple[str, ...] = ()
    """What a CPU has to be able to do for what was compiled into the virtual environment, as /proc/cpuinfo says it."""

    finish: Finish | None = None
    """How the job goes on after something went wrong; None: it ends."""

    sweep: SweepTable | None = None
    """The job is an array: each task has a row of this table, the first is task 1; None: it is one job."""

    pack: Pack | None = None
    """Several rows share one node; None: each row is a job of its own."""

    roles: tuple[Role, ...] = ()
    """The programs of the job, each with a plan of its own; empty: the job is one program, and this is its plan."""

    parts: tuple[tuple[Directive, ...], ...] = ()
    """The headers of the job's further parts, whose nodes are of other kinds; empty: it is one allocation."""

    own_python: str | None = None
    """Muster's own Python, which steers the roles where the first node has it; None: any other does."""

    supervisor: str = ""
    """The folder of the program that steers the roles; empty: the job has none."""

    texts: str | None = None
    """The folder from which the script reads large texts of Muster's; None: the script holds all of them."""

    @property
    def step_indent(self) -> int:
        """Return where the script puts the line that starts the ranks."""
        return 4
