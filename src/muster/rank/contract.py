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
LAUNCHER = "MUSTER_LAUNCHER"  # srun, torchrun, mpirun, mpirun+torchrun, local
NODES = "MUSTER_NODES"  # node names in rank order, blank-separated
PORT = "MUSTER_PORT"  # the port chosen before the step
ADDRESS = "MUSTER_ADDRESS"  # the address that the user asked for, instead of the first host
EXPECTED_TASKS = "MUSTER_NTASKS"  # ranks that the plan promised
EXPECTED_GPUS = "MUSTER_GPUS"  # GPUs per node that were asked for; 0: none
EXPECTED_CPUS = "MUSTER_CPUS"  # CPUs per task that were asked for
INSTANCE = "MUSTER_INSTANCE"  # which of several worlds this rank belongs to
METHOD = "MUSTER_WIREUP"  # the wire-up method asked for with --wireup
START_METHOD = "MUSTER_START_METHOD"  # how data loaders must start workers on this fabric: fork, spawn, forkserver
