#!/bin/bash
# Written by muster 0.1.0 for the site 'laptop'. It runs with bash alone.
#   muster run --ntasks-per-node 2 -- python train.py
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 2 0 1
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=local AGENTS=0 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORTS=20000-31999
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

# Functions that the job and every started process call.
muster_common=$(
    cat <<'MUSTER_TEXT'
# These functions are shared by all prologues: POSIX sh with builtins only, since an image may hold no other program.

# Stops with the sentence $1 and the hint $2.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

# Finds the first name of the Slurm node list $1: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
muster_first_host() {
    muster_first=
    muster_list=$1
    while :; do
        muster_plain=${muster_list%%[[,]*}
        muster_first=$muster_first$muster_plain
        muster_list=${muster_list#"$muster_plain"}
        case $muster_list in
        '['*)
            muster_inside=${muster_list#'['}
            muster_inside=${muster_inside%%']'*}
            muster_first=$muster_first${muster_inside%%[,-]*}
            muster_list=${muster_list#*']'}
            ;;
        *) return ;;
        esac
    done
}

# Computes a port from the ids of job $1 and step $2. Jobs that follow each other get different ports, all of them below
# the ephemeral range. Result in $muster_port.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Succeeds if a program on this host already listens on port $1.
muster_port_is_taken() {
    muster_listening=$(ss -Hltn "sport = :$1" 2>/dev/null || muster_listening_in_tables "$1")
    [ -n "$muster_listening" ]
}

# Finds listeners on port $1 in the kernel's tables (0A: listening), for hosts without ss. With 4,000 open sockets grep
# takes 3 ms; a shell, which reads line by line, takes 0.8 s (dash) or 24 s (bash).
muster_listening_in_tables() {
    muster_hex=$(printf '%04X' "$1")
    if command -v grep >/dev/null; then
        grep -hs ":$muster_hex [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp /proc/net/tcp6
        return
    fi
    for muster_table in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$muster_table" ] || continue
        while read -r _ muster_local _ muster_state _; do
            case $muster_state:$muster_local in
            0A:*:"$muster_hex") echo "$muster_local" && return ;;
            esac
        done <"$muster_table"
    done
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
    # shellcheck disable=SC2034  # the job uses it, if CPUs were asked for
    muster_ntasks_per_node=$2 muster_cpus_per_task=$3 muster_nodes=$4
    muster_forget
}

# Ends the run with the exit status of its ranks.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }

# Changes to the working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 does not exist" 'use a file system that the compute nodes see, or --chdir'
}

# Exports what was planned, for the prologue of every rank to compare with what it finds. NAME=VALUE becomes
# MUSTER_NAME; PORTS=LOW-HIGH is the range of ports.
muster_expect() {
    local expectation ports
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    for expectation in "$@"; do
        case $expectation in
        PORTS=*)
            ports=${expectation#PORTS=}
            export MUSTER_PORT_LOW=${ports%-*} MUSTER_PORT_COUNT=$((${ports#*-} - ${ports%-*} + 1))
            ;;
        *) export "MUSTER_$expectation" ;;
        esac
    done
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

# Which CPUs the kernel grants this rank, and how many of the physical cores are its share.

# Finds the core of CPU $1, named by its first hardware thread. dash and busybox read byte by byte, and newer kernels
# (seen with 6.18) then return an empty list. In that case the numbers of package, die, cluster and core name the core.
# Result in $muster_core.
muster_core_of() {
    muster_folder=${MUSTER_SYS:-/sys}/devices/system/cpu/cpu$1/topology
    muster_core=
    [ ! -r "$muster_folder/thread_siblings_list" ] || read -r muster_core <"$muster_folder/thread_siblings_list" || :
    muster_core=${muster_core%%[,-]*}
    [ -z "$muster_core" ] || return 0
    for muster_name in physical_package_id die_id cluster_id core_id; do
        muster_number=
        [ ! -r "$muster_folder/$muster_name" ] || read -r muster_number <"$muster_folder/$muster_name" || :
        muster_core=$muster_core${muster_core:+.}${muster_number:--}
    done
    [ "$muster_core" != -.-.-.- ] || muster_core=$1
}

# Counts the CPUs of the list $1, such as 0-3,8 ($muster_cpu_count), and their cores ($muster_core_count).
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
            muster_core_of "$muster_cpu"
            case $muster_cores in
            *,"$muster_core",*) ;;
            *)
                muster_cores=$muster_cores$muster_core,
                muster_core_count=$((muster_core_count + 1))
                ;;
            esac
            muster_cpu=$((muster_cpu + 1))
        done
    done
    IFS=$muster_ifs
}

# Computes the number of threads of a rank. $1: its CPU mask, $2: the ranks of its node, $3: the CPUs asked for (0:
# none).
muster_threads_of_mask() {
    muster_online=
    [ ! -r "${MUSTER_SYS:-/sys}/devices/system/cpu/online" ] || read -r muster_online <"${MUSTER_SYS:-/sys}/devices/system/cpu/online" || :
    muster_count_cpus "$1"
    # A mask that is wider than one rank's share belongs to the whole node: the ranks of the node divide it.
    muster_sharing=1
    if [ "$1" = "$muster_online" ] ||
        { [ "$3" -gt 0 ] && [ "$muster_cpu_count" -gt "$3" ]; } ||
        { [ "$3" -eq 0 ] && [ "$muster_cpu_count" -ge "${SLURM_CPUS_ON_NODE:-1}" ]; }; then
        muster_sharing=$2
    fi
    muster_threads=$((muster_core_count / muster_sharing))
    [ "$3" -eq 0 ] || [ "$muster_threads" -le "$3" ] || muster_threads=$3
    [ "$muster_threads" -ge 1 ] || muster_threads=1
}

# Reads the CPU mask of this process, as the kernel writes it. Result in $muster_cpus.
muster_own_mask() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || muster_cpus=$muster_value
    done <"${MUSTER_PROC:-/proc}/self/status"
}

# If the node does not have the working directory, Slurm starts the task in /tmp.
[ -z "${MUSTER_DIRECTORY:-}" ] || cd "$MUSTER_DIRECTORY" 2>/dev/null || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the working directory $MUSTER_DIRECTORY" \
        'use a file system that the compute nodes see, or --chdir'
}
[ -z "${MUSTER_PYTHON:-}" ] || [ -x "$MUSTER_PYTHON" ] || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the Python of the environment, $MUSTER_PYTHON" \
        'put the environment on a file system that the compute nodes see, or --stage-env'
}

# Compares the start with the plan: a rank that runs alone, or all ranks on one core, is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" 'the command may start another launcher: remove it from the command'
[ "$muster_nodes" -lt 2 ] || [ -n "${MUSTER_LOCAL_NNODES:-}" ] || case $muster_address in
'' | localhost | localhost.* | 127.*) muster_stop "the address of rank 0 is '$muster_address', which means another host on every node" 'omit --master-addr, or name a host' ;;
esac
case $muster_address in
*:*:*) ;; # IPv6
*:*) muster_stop "MASTER_ADDR '$muster_address' holds a port" 'give the host with --master-addr and the port with --master-port' ;;
esac

# Sets the threads of the rank and the variables that torch reads.
muster_own_mask
muster_threads_of_mask "$muster_cpus" "$muster_local_size" "${MUSTER_CPUS:-0}"
[ "${MUSTER_CPUS:-1}" -le 1 ] || [ "$muster_cpu_count" -ne 1 ] || muster_stop \
    "rank $muster_rank may use only one CPU (number $muster_cpus) of the $MUSTER_CPUS that were asked for" \
    'the step was started without --cpus-per-task: let Muster write the srun line'
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS="$muster_threads"

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

# Sets the address for jax.distributed.initialize(), with the port of the meeting point, or a port that the agent leaves
# free.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=${muster_jax_port:-$MASTER_PORT}
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi

# Runs the user's command, unchanged. Only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
exec "$@"
MUSTER_TEXT
)

job
