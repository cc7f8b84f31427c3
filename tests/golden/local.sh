#!/bin/bash
# Written by muster 0.1.0 for the site 'laptop'. It runs with bash alone.
#   muster run --ntasks-per-node 2 -- python train.py
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 2 0 1
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=local AGENTS=0 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000
    export MUSTER_PORT=${MUSTER_PORT:-20000}
    muster_pids=()
    for muster_index in {0..1}; do
        export MUSTER_LOCAL_PROCID=$muster_index MUSTER_LOCAL_LOCALID=$((muster_index % 2))
        export MUSTER_LOCAL_NODEID=$((muster_index / 2))
        export MUSTER_LOCAL_NNODES=1 MUSTER_LOCAL_NTASKS=2
        sh -c "$muster_task" muster /home/ada/env/bin/python train.py <&0 &
        muster_pids+=("$!")
    done
    muster_status=0
    for muster_pid in "${muster_pids[@]}"; do
        wait "$muster_pid" || muster_status=$((muster_status ? muster_status : $?))
    done
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (0.1.0, sha256 DIGEST), explained in docs/explanation/script.md.

muster_common=$(
    cat <<'MUSTER_TEXT'
# What the job and every started process call: POSIX sh that needs no other program, since an image may hold none.

# Stops with the sentence $1 and the hint $2.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

# Finds the first name of the Slurm node list $1: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
muster_first_host() {
    muster_first=${1%%[[,]*}
    muster_list=${1#"$muster_first"}
    while [ "${muster_list#'['}" != "$muster_list" ]; do
        muster_inside=${muster_list#'['}
        muster_list=${muster_list#*']'}
        muster_name=${muster_list%%[[,]*}
        muster_first=$muster_first${muster_inside%%[],-]*}$muster_name
        muster_list=${muster_list#"$muster_name"}
    done
}

# Computes a port from the ids of job $1 and step $2. Jobs that follow each other get different ports, all of them below
# the ephemeral range. Result in $muster_port.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Succeeds if a program on this host listens on port $1, by the kernel's tables (0A: listening). Without grep, the port
# counts as free: a shell would read 4,000 open sockets for 24 s. grep is looked for on the node's own disk first.
muster_port_is_taken() {
    PATH=/usr/bin:/bin:$PATH grep -qs ":$(printf '%04X' "$1") [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}
MUSTER_TEXT
)
eval "$muster_common"

# Begins a run on this machine. $1: the working directory. $2, $3: ranks per node and CPUs per rank. $4: nodes.
muster_begin() {
    # Ctrl-C, SIGTERM and SIGHUP end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    muster_job=here-$$
    muster_run_dir=$PWD/muster-runs/$muster_job
    muster_go_to "$1"
    muster_ntasks_per_node=$2 muster_cpus_per_task=$3 muster_nodes=$4
    muster_forget
}

# Ends the run with the exit status of its ranks.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }

# Changes to the working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 does not exist" 'use a file system that the compute nodes see, or --chdir'
}

# Exports what was planned, NAME=VALUE as MUSTER_NAME: the prologue of every rank compares it with what it finds.
muster_expect() {
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    export "${@/#/MUSTER_}"
}

# Unsets variables of outer jobs, launchers and the header that would change the step.
muster_forget() {
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE \
        SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV \
        SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT RANK WORLD_SIZE LOCAL_RANK \
        LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR \
        MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS \
        OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK
}

# What every started process runs before the command: POSIX sh, without Python.
muster_task=$muster_common$'\n\n'$(
    cat <<'MUSTER_TEXT'
# Who this rank is, from the variables of Muster's supervisor on this machine.
muster_rank=$MUSTER_LOCAL_PROCID
muster_size=$MUSTER_NTASKS
muster_local_rank=$MUSTER_LOCAL_LOCALID
muster_local_size=$MUSTER_LOCAL_NTASKS
muster_node_rank=$MUSTER_LOCAL_NODEID
muster_nodes=$MUSTER_LOCAL_NNODES
muster_address=${MUSTER_ADDRESS:-127.0.0.1}
muster_port=$MUSTER_PORT
muster_id=$MUSTER_JOB

# If the node does not have the working directory, Slurm starts the task in /tmp.
[ -z "${MUSTER_DIRECTORY:-}" ] || cd "$MUSTER_DIRECTORY" 2>/dev/null || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the working directory $MUSTER_DIRECTORY" \
        'use a file system that the compute nodes see, or --chdir'
}

# Compares the start with the plan: a rank that runs alone is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" 'the command may start another launcher: remove it from the command'

# Counts the CPUs of the list $1, such as 0-3,8 ($muster_cpu_count), and their cores ($muster_core_count). The numbers of
# package, die, cluster and core name a core. The file thread_siblings_list would too, but dash and busybox read byte by
# byte, and newer kernels (seen with 6.18) then return an empty list.
muster_count_cpus() {
    muster_cpu_count=0
    muster_core_count=0
    muster_cores=,
    muster_ifs=$IFS
    IFS=,
    for muster_range in $1; do
        muster_cpu=${muster_range%-*}
        while [ "$muster_cpu" -le "${muster_range#*-}" ]; do
            muster_cpu_count=$((muster_cpu_count + 1))
            muster_core=
            for muster_name in physical_package_id die_id cluster_id core_id; do
                muster_number=
                muster_file=${MUSTER_SYS:-/sys}/devices/system/cpu/cpu$muster_cpu/topology/$muster_name
                [ ! -r "$muster_file" ] || read -r muster_number <"$muster_file" || :
                muster_core=$muster_core.$muster_number
            done
            [ "$muster_core" != .... ] || muster_core=$muster_cpu
            if [ "${muster_cores#*,"$muster_core",}" = "$muster_cores" ]; then
                muster_cores=$muster_cores$muster_core,
                muster_core_count=$((muster_core_count + 1))
            fi
            muster_cpu=$((muster_cpu + 1))
        done
    done
    IFS=$muster_ifs
}

# Finds the number of threads of a rank by its CPU mask. $1: the ranks of its node, $2: the CPUs asked for (0: none).
# Results in $muster_threads and $muster_cpus, the mask as the kernel writes it.
muster_find_threads() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || muster_cpus=$muster_value
    done <"${MUSTER_PROC:-/proc}/self/status"
    muster_count_cpus "$muster_cpus"
    # A mask that is wider than one rank's share belongs to the whole node: the ranks of the node divide it.
    muster_own=$2
    [ "$muster_own" -gt 0 ] || muster_own=$((${SLURM_CPUS_ON_NODE:-1} - 1))
    muster_threads=$muster_core_count
    [ "$muster_cpu_count" -le "$muster_own" ] || muster_threads=$((muster_core_count / $1))
    [ "$2" -eq 0 ] || [ "$muster_threads" -le "$2" ] || muster_threads=$2
    [ "$muster_threads" -ge 1 ] || muster_threads=1
}

# Sets the threads of the rank.
muster_find_threads "$muster_local_size" "${MUSTER_CPUS:-0}"
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS="$muster_threads"

# Sets the variables that torch reads.
if [ "$muster_rank" -eq 0 ] && [ -z "${MUSTER_PORT_CHOSEN:-}" ] && muster_port_is_taken "$muster_port"; then
    muster_stop "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
fi
export RANK="$muster_rank" WORLD_SIZE="$muster_size" LOCAL_RANK="$muster_local_rank" LOCAL_WORLD_SIZE="$muster_local_size"
export GROUP_RANK="$muster_node_rank" GROUP_WORLD_SIZE="$muster_nodes" NODE_RANK="$muster_node_rank"
export ROLE_NAME=default ROLE_RANK="$muster_rank" ROLE_WORLD_SIZE="$muster_size"
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port"
export TORCHELASTIC_RUN_ID="$muster_id" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
# With this variable, rank 0 would wait for ever for an agent's store that does not exist.
unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE

# Sets Slurm's variables for this rank. Some programs (JAX, ignite, mmengine) read them, and would find there the agent
# or the daemon that started the rank.
if [ -n "${SLURM_JOB_ID:-}${MUSTER_SLURM_NAMES:-}" ]; then
    export SLURM_JOB_ID="${SLURM_JOB_ID:-${MUSTER_JOB##*-}}"
    export SLURM_PROCID="$RANK" SLURM_LOCALID="$LOCAL_RANK" SLURM_NODEID="$GROUP_RANK" SLURM_TASK_PID="$$"
    export SLURM_NTASKS="$WORLD_SIZE" SLURM_NPROCS="$WORLD_SIZE" SLURM_STEP_NUM_TASKS="$WORLD_SIZE"
    export SLURM_NNODES="$GROUP_WORLD_SIZE" SLURM_STEP_NUM_NODES="$GROUP_WORLD_SIZE"
    muster_each=$LOCAL_WORLD_SIZE
    [ "$GROUP_WORLD_SIZE" -lt 2 ] || muster_each="$muster_each(x$GROUP_WORLD_SIZE)"
    export SLURM_TASKS_PER_NODE="$muster_each" SLURM_STEP_TASKS_PER_NODE="$muster_each" SLURM_NTASKS_PER_NODE="$LOCAL_WORLD_SIZE"
    # The agent's own value counts the CPUs of all ranks of its node.
    [ "${MUSTER_CPUS:-0}" -eq 0 ] || export SLURM_CPUS_PER_TASK="$MUSTER_CPUS"
    unset SLURM_GTIDS
    # The ranks of mpirun are not a step of Slurm, but its daemons on the other hosts are. Ranks on this machine have no
    # step.
    muster_list=
    for muster_name in ${MUSTER_NODES:-}; do muster_list=$muster_list${muster_list:+,}$muster_name; done
    [ -z "${MUSTER_LOCAL_NNODES:-}${MUSTER_SLURM_NAMES:-}" ] || read -r muster_list </proc/sys/kernel/hostname
    [ -z "$muster_list" ] || export SLURM_STEP_NODELIST="$muster_list"
fi

# The address for jax.distributed.initialize(), with the port of the meeting point, or a port that the agent leaves free.
case $MASTER_ADDR in
*:*) muster_jax_host=[$MASTER_ADDR] ;;
*) muster_jax_host=$MASTER_ADDR ;;
esac
export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-$muster_jax_host:${muster_jax_port:-$MASTER_PORT}}"

# Runs the user's command, unchanged. Only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
exec "$@"
MUSTER_TEXT
)

job
