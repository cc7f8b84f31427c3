"""The one page of names that the login side writes and the ranks read. Imports nothing."""

# What every rank finds in its environment before the user's command starts: torch's names.
RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_RANK = "LOCAL_RANK"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
GROUP_RANK = "GROUP_RANK"
GROUP_WORLD_SIZE = "GROUP_WORLD_SIZE"
NODE_RANK = "NODE_RANK"
ROLE_NAME = "ROLE_NAME"
ROLE_RANK = "ROLE_RANK"
ROLE_WORLD_SIZE = "ROLE_WORLD_SIZE"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
RUN_ID = "TORCHELASTIC_RUN_ID"
RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"
MAX_RESTARTS = "TORCHELASTIC_MAX_RESTARTS"
OMP_NUM_THREADS = "OMP_NUM_THREADS"

PUBLISHED = (
    RANK,
    WORLD_SIZE,
    LOCAL_RANK,
    LOCAL_WORLD_SIZE,
    GROUP_RANK,
    GROUP_WORLD_SIZE,
    NODE_RANK,
    ROLE_NAME,
    ROLE_RANK,
    ROLE_WORLD_SIZE,
    MASTER_ADDR,
    MASTER_PORT,
    RUN_ID,
    RESTART_COUNT,
    MAX_RESTARTS,
)

# What the batch script tells the tasks: Muster's own names.
JOB = "MUSTER_JOB"  # the job's id, or the local run's
RUN_DIRECTORY = "MUSTER_RUN_DIR"  # logs, plan and record of this run, seen from every node
LAUNCHER = "MUSTER_LAUNCHER"  # the name of what started the ranks, for people
AGENTS = "MUSTER_AGENTS"  # 1: that launcher keeps a process of its own on each node, which Slurm may have numbered
STEP = "MUSTER_STEP"  # which start this is of those in one job, where Slurm's own number is the daemons'
DIRECTORY = "MUSTER_DIRECTORY"  # where the ranks run: a node that does not have it is named
NODES = "MUSTER_NODES"  # node names in rank order, blank-separated
PORT = "MUSTER_PORT"  # the port chosen before the step
PORT_CHOSEN = "MUSTER_PORT_CHOSEN"  # that port was tried a moment ago on this very host
ADDRESS = "MUSTER_ADDRESS"  # the address that the user asked for, instead of the first host
EXPECTED_TASKS = "MUSTER_NTASKS"  # ranks that the plan promised
EXPECTED_GPUS = "MUSTER_GPUS"  # GPUs per node that were asked for; 0: none
EXPECTED_CPUS = "MUSTER_CPUS"  # CPUs per task that were asked for
TASKS_PER_NODE = "MUSTER_NTASKS_PER_NODE"  # ranks of each node that the plan promised
VISIBILITY = "MUSTER_VISIBILITY"  # all: every rank sees all GPUs of its node; one: its own alone
GRACE = "MUSTER_GRACE"  # seconds between asking ranks to end and ending them
HOST_SUFFIX = "MUSTER_HOST_SUFFIX"  # what this site adds to a node's name for the fast network
PORT_LOW = "MUSTER_PORT_LOW"  # the range from which a port is taken: its lowest …
PORT_COUNT = "MUSTER_PORT_COUNT"  # … and how many
RANGE_ASKED = "MUSTER_RANGE_ASKED"  # that range is the user's: no port that Slurm reserves by itself
LOCAL_PROCID = "MUSTER_LOCAL_PROCID"  # what the supervisor of a machine without Slurm says of a process:
LOCAL_LOCALID = "MUSTER_LOCAL_LOCALID"  # its place on its (simulated) node,
LOCAL_NODEID = "MUSTER_LOCAL_NODEID"  # which node that is,
LOCAL_NNODES = "MUSTER_LOCAL_NNODES"  # of how many,
LOCAL_NTASKS = "MUSTER_LOCAL_NTASKS"  # and how many ranks a node has
METHOD = "MUSTER_WIREUP"  # the wire-up method asked for with --wireup
PYTHON = "MUSTER_PYTHON"  # of the environment that the script activates: a node that does not have it is named
AGENT_MODULE = "MUSTER_AGENT_MODULE"  # the Python module that is the agent; missing: torchrun's
AGENT_NEEDS = "MUSTER_AGENT_NEEDS"  # the word without which that agent does not start
AGENT_FLAGS = "MUSTER_AGENT_FLAGS"  # the user's flags for the agent, one a line: --max-restarts=3
ATTEMPT = "MUSTER_ATTEMPT"  # which start of the ranks this is, counted from 1 over restarts and requeues
RESTARTS = "MUSTER_RESTARTS"  # how often they may start again in this allocation
CHECKPOINT = "MUSTER_CHECKPOINT"  # the newest whole checkpoint where the script saves; empty: there is none
SAVE_SIGNAL = "MUSTER_SAVE_SIGNAL"  # the signal, by name, at which the ranks save: the job ends soon
SAVE_RUN = "MUSTER_SAVE_RUN"  # the run whose ranks get it: two runs of one allocation are told apart
END = "MUSTER_END"  # when the job's time is over, in seconds since 1970; missing: it is not known
STAGGER = "MUSTER_STAGGER"  # seconds by which each rank's first connection to rank 0 comes after the one before
ROLE = "MUSTER_ROLE"  # which of the job's programs this is; MUSTER_<ROLE>_HOST, _HOSTS, _PORT, _URL: where each one is
ROLE_PORT = "MUSTER_ROLE_PORT"  # the port of that program: one that is taken on the node is named before it starts
ROLE_PORTS = "MUSTER_ROLE_PORTS"  # how many ports in a row it has
ROLE_KEY = "MUSTER_ROLE_KEY"  # a secret of the job's for that program, for those that ask for one: Ray's token
START_METHOD = "MUSTER_START_METHOD"  # how data loaders must start workers on this fabric: fork, spawn, forkserver

# What the supervisor of a job tells the script of an attempt; no rank has them.
SUPERVISOR = "MUSTER_SUPERVISOR"  # where the attempt tells what it sees, and the number under which it does
PLACED = "MUSTER_PLACED"  # 1: the ranks have their nodes by name, because the job holds spare ones

# What the prologues and the launchers' own processes on a node tell each other.
CHECKED = "MUSTER_CHECKED"  # the gate before an agent has looked, and has set torch's names for itself alone
OMP = "MUSTER_OMP"  # own: an agent has set OMP_NUM_THREADS for itself, and its ranks take theirs
ENDS = "MUSTER_ENDS"  # the folder in which each node writes how its ranks, or its agent, ended; empty: nobody counts
DOOR_KEY = "MUSTER_DOOR_KEY"  # the secret that the doors of a closed job share; no rank has it
DOOR = "MUSTER_DOOR"  # host:port at which the ranks of a closed job meet, told by an agent's prologue to its ranks
MARK = "MUSTER_MARK"  # names one start on one node: what leaves a rank's group is found by it, and ended at the end
PIPES = "MUSTER_PIPES"  # where the keeper of an agent reads the lines of its ranks
SLURM_NAMES = "MUSTER_SLURM_NAMES"  # 1: the script reads the names of Slurm, which are made where nobody sets them
PASSED = "MUSTER_PASSED_"  # begins the names under which --env NAME passes a value that no file may show
STAGE = "MUSTER_STAGE"  # the folder on the node's own disk that staged things lie in
STAGE_SCRIPT = "MUSTER_STAGE_SCRIPT"  # what is staged, and with _HERE where it is on this node: the script,
STAGE_SCRIPT_HERE = "MUSTER_STAGE_SCRIPT_HERE"
STAGE_IMAGE = "MUSTER_STAGE_IMAGE"  # the image,
STAGE_IMAGE_HERE = "MUSTER_STAGE_IMAGE_HERE"
STAGE_ENV = "MUSTER_STAGE_ENV"  # the environment,
STAGE_ENV_HERE = "MUSTER_STAGE_ENV_HERE"
STAGE_LIBRARY = "MUSTER_STAGE_LIBRARY"  # the folder by which a rank imports muster,
STAGE_BINDS = "MUSTER_STAGE_BINDS"  # and what an image has to see of all that

# Facts of one start, which no start sets always: those that an outer job or a shell has are not of these ranks.
OF_A_START = (
    *(ATTEMPT, RESTARTS, CHECKPOINT, SAVE_SIGNAL, SAVE_RUN, END, ROLE, ROLE_PORT, ROLE_PORTS, ROLE_KEY),
    *(PORT, PORT_CHOSEN, RANGE_ASKED, ADDRESS, HOST_SUFFIX, NODES, STEP, METHOD, PYTHON, ENDS, DOOR, DOOR_KEY, PIPES),
    *(AGENT_MODULE, AGENT_NEEDS, AGENT_FLAGS, CHECKED, OMP, SLURM_NAMES, STAGE, STAGE_SCRIPT, STAGE_SCRIPT_HERE),
    *(STAGE_IMAGE, STAGE_IMAGE_HERE, STAGE_ENV, STAGE_ENV_HERE, STAGE_LIBRARY, STAGE_BINDS),
)

# What a person or a test may set.
SAFE_DIRECTORY = "MUSTER_SAFE_DIRECTORY"  # a folder whose settings may decide what runs as you
SYSTEM_DIRECTORY = "MUSTER_SYSTEM_DIRECTORY"  # the administrator's folder, where it is not /etc/muster
TRACEBACK = "MUSTER_TRACEBACK"  # 1: an error of Muster's own shows where it came from
BUILD_PASSWORD = "MUSTER_BUILD_PASSWORD"  # noqa: S105 # what the job of a build is handed for a registry
CHECK_SIMULATE = "MUSTER_CHECK_SIMULATE"  # for tests: a clock that is wrong, in a check
PROC = "MUSTER_PROC"  # for tests: another tree in the place of /proc
SYS = "MUSTER_SYS"  # for tests: another tree in the place of /sys

# What a lab tells those who are in it.
LAB_SITE = "MUSTER_LAB_SITE"  # the site that it is like
LAB_FOLDERS = "MUSTER_LAB_FOLDERS"  # the folders of /tmp and the like that all of its hosts see, one a line
