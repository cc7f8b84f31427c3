#!/bin/bash
# Written by muster 0.1.0 for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 --check --chdir '/scratch/it'"'"'s' -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # words of the user's reach the ranks as they are

job() {
    muster_begin '/scratch/it'"'"'s' 4 0
    [ -r '/scratch/it'"'"'s/muster-runs/check.pyz' ] || muster_stop \
        '/scratch/it'"'"'s/muster-runs/check.pyz, which checks the nodes before the run, is not there' \
        'muster run --check and muster submit --check put it there; without --check the script needs no file'
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS=0 VISIBILITY=all GRACE=10 PORTS=20000-31999
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none --label \
        --output="$muster_logs"/%N.log --input=0 \
        sh -c "$muster_task" muster /home/ada/env/bin/python '/scratch/it'"'"'s/muster-runs/check.pyz' gate \
        '{"gpus": 4}' /home/ada/env/bin/python train.py
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (0.1.0, sha256 DIGEST), explained in docs/explanation/script.md.

# What the job and every started process call.
muster_common=$(
    cat <<'MUSTER_TEXT'
# What the prologues share. POSIX sh with builtins only: the image may hold nothing but a shell.

# End with the sentence $1 and the hint $2.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

# The first name of a Slurm node list: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
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

# A port from the ids of job $1 and step $2: neighbours in time differ, and it lies below the ephemeral range.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Whether something on this host already listens on port $1.
muster_port_is_taken() {
    muster_listening=$(ss -Hltn "sport = :$1" 2>/dev/null || muster_listening_in_tables "$1")
    [ -n "$muster_listening" ]
}

# The same from the kernel's tables (0A: listening), where there is no ss. A shell reads them a line at a time:
# with 4,000 open sockets 0.8 s in dash and 24 s in bash, and 3 ms in grep.
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

# The job's beginning: its id, its directory, its size, and nothing of what stood here before. $1: where it works; $2, $3:
# ranks of a node and CPUs of a rank (0: not asked for), as they were planned.
muster_begin() {
    # Ctrl-C, SIGTERM or a hang-up ends the ranks; whatever the launcher then says, this is what happened.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'queue this file with sbatch, or run it inside salloc'
    muster_job=$SLURM_JOB_ID
    muster_find_run_directory
    muster_go_to "$1"
    muster_take_size "${@:2}"
    muster_forget
}

# The job's end, as its ranks ended.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }

# submit points the output to RUN/logs/batch.log, and that is how the job finds its directory.
muster_find_run_directory() {
    muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)
    muster_run_dir=${muster_output%/logs/batch.log}
    [ "$muster_run_dir" != "$muster_output" ] || muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
    (umask 077 && mkdir -p "$muster_run_dir/logs") || muster_stop "the directory $muster_run_dir/logs cannot be made" \
        'submit from a directory that the compute nodes can write'
    muster_logs=$muster_run_dir/logs
}

# The size that was granted, so that `sbatch -N 8 FILE` scales; the planned one where Slurm does not say it.
muster_take_size() {
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-$1}
    # shellcheck disable=SC2034  # the job uses it, if CPUs were asked for
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-$2}
}

# The working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 is not there" 'use a file system that the compute nodes see, or --chdir'
}

# What the prologue of every rank compares with what it finds: NAME=VALUE for each MUSTER_NAME, PORTS=LOW-HIGH for the range
# from which a port is taken.
muster_expect() {
    local told ports
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    for told in "$@"; do
        case $told in
        PORTS=*)
            ports=${told#PORTS=}
            export MUSTER_PORT_LOW=${ports%-*} MUSTER_PORT_COUNT=$((${ports#*-} - ${ports%-*} + 1))
            ;;
        *) export "MUSTER_$told" ;;
        esac
    done
}

# A port on the host of rank 0 for jobs that start side by side; tried here when this is that host.
muster_choose_port() {
    muster_first_host "$SLURM_JOB_NODELIST"
    read -r muster_here </proc/sys/kernel/hostname
    [ "${SLURMD_NODENAME:-$muster_here}" = "$muster_first" ] || return 0
    muster_port_from_ids "$SLURM_JOB_ID" "$$"
    for _ in {1..64}; do
        if ! muster_port_is_taken "$muster_port"; then
            export MUSTER_PORT=$muster_port MUSTER_PORT_CHOSEN=1
            return
        fi
        muster_port=$((MUSTER_PORT_LOW + (muster_port + 1 - MUSTER_PORT_LOW) % MUSTER_PORT_COUNT))
    done
    muster_stop "no free port between $MUSTER_PORT_LOW and $((MUSTER_PORT_LOW + MUSTER_PORT_COUNT))" 'give another range with --port-range'
}

# srun gives its own status to a step that was ended (143, 137) whatever the first rank said: read what it reports.
# Passes every line on; prints the status of the first rank that failed, and ends the others: SIGTERM, and SIGKILL
# $1 seconds later. An ending by srun itself (--kill-on-bad-exit) sends SIGKILL only after the cluster's KillWait, and
# lets nobody else's through until then. Nothing sleeps here: who reads our output would have to wait for it.
muster_watch() {
    trap '' INT TERM HUP
    local line part='' status='' seen='' pid='' deadline='' more=1
    while [ -n "$more" ]; do
        [ -z "$deadline" ] || [ "$SECONDS" -lt "$deadline" ] || { muster_end_step KILL "$pid" && deadline=; }
        line=
        if IFS= read -r ${deadline:+-t $((deadline - SECONDS))} line; then
            line=$part$line part=
        elif [ "$?" -gt 128 ]; then
            part=$part$line && continue
        else
            line=$part$line more=
            [ -n "$line" ] || break
        fi
        case $line in
        'muster-status '*) status=${line#muster-status } && continue ;;
        'muster-srun '*) pid=${line#muster-srun } && continue ;;
        esac
        printf '%s\n' "$line" >&9
        [ -z "$seen" ] || continue
        muster_status_in "$line"
        [ -z "$seen" ] || { muster_end_step TERM "$pid" && deadline=$((SECONDS + $1)); }
    done
    # srun itself was killed: nobody else ends its ranks.
    [ -n "$seen" ] || [ "${status:-0}" -ne 137 ] || muster_end_step KILL "$pid"
    printf '%s\n' "${seen:-$status}"
}

# Send the signal $1 to the step of the srun whose pid is $2; to srun, where the controller does not answer.
muster_end_step() {
    (
        step=$(scontrol --oneliner show step "$SLURM_JOB_ID" | grep -E "SrunHost:Pid=[^ ]*:$2( |$)")
        step=${step#StepId=}
        step=${step%% *}
        [ -n "$step" ] || exec kill "$2"
        exec scancel --quiet --signal="$1" "$step"
    ) </dev/null >/dev/null 2>&1 7>&- 8>&- 9>&- &
}

# The status in one line of srun's, if it tells of a task's end. Result in $seen.
muster_status_in() {
    local what
    case $1 in
    'srun: interrupt '*) seen=130 ;;
    esac
    [[ $1 =~ ^srun:\ error:\ [^:]+:\ tasks?\ [0-9,-]+:\ (.*)$ ]] || return 0
    what=${BASH_REMATCH[1]}
    case $what in
    'Exited with exit code '*) seen=${what##* } ;;
    Hangup*) seen=129 ;;
    Interrupt*) seen=130 ;;
    Quit*) seen=131 ;;
    'Illegal instruction'*) seen=132 ;;
    'Trace/breakpoint trap'*) seen=133 ;;
    Aborted*) seen=134 ;;
    'Bus error'*) seen=135 ;;
    'Floating point exception'*) seen=136 ;;
    Killed* | 'Out Of Memory'*) seen=137 ;;
    'User defined signal 1'*) seen=138 ;;
    'Segmentation fault'*) seen=139 ;;
    'User defined signal 2'*) seen=140 ;;
    'Broken pipe'*) seen=141 ;;
    'Alarm clock'*) seen=142 ;;
    Terminated*) seen=143 ;;
    'CPU time limit exceeded'*) seen=152 ;;
    'File size limit exceeded'*) seen=153 ;;
    esac
}

# Runs an srun line; result in $muster_status. The ranks' output does not pass through here: srun's own words do.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        {
            {
                (printf 'muster-srun %s\n' "$BASHPID" >&7 && exec "$@" 2>&7 >&8)
                printf 'muster-status %s\n' "$?" >&7
            } 7>&1 2>/dev/null | muster_watch "$((${muster_keeper:+1+}MUSTER_GRACE))"
        }
    )
    : "${muster_status:=143}" # a signal to all of us ended even those who read it
} 8>&1 9>&2

# What an outer job, another launcher or the header left behind: the flags of the step say it better.
muster_forget() {
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE \
        SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV \
        SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT RANK WORLD_SIZE LOCAL_RANK \
        LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR \
        MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS \
        OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK
}

# What every started process runs before the command: POSIX sh, no Python, nothing is asked of anybody.
muster_task=$muster_common$'\n\n'$(
    cat <<'MUSTER_TEXT'
# How many tasks node $2 has, by Slurm's "4(x2),3". Result in $muster_tasks.
muster_tasks_of_node() {
    muster_tasks=
    muster_seen=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do
        case $muster_item in
        *'(x'*)
            muster_times=${muster_item#*'(x'}
            muster_times=${muster_times%')'}
            ;;
        *) muster_times=1 ;;
        esac
        muster_seen=$((muster_seen + muster_times))
        if [ "$2" -lt "$muster_seen" ]; then
            muster_tasks=${muster_item%%'('*}
            break
        fi
    done
    IFS=$muster_ifs
}

# Who this task is, from the variables of its Slurm step: nothing is asked of anybody.
case ${SLURM_PROCID:+p}${SLURM_LOCALID:+l}${SLURM_NODEID:+n} in
pln) ;;
*) muster_stop 'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun' ;;
esac
muster_rank=$SLURM_PROCID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_rank=$SLURM_LOCALID
muster_node_rank=$SLURM_NODEID
muster_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}
# Not as many as were planned: inside an allocation of salloc's, Slurm may deal them otherwise whatever the step asks for.
muster_tasks_of_node "${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-$muster_size}}" "$muster_node_rank"
muster_local_size=${muster_tasks:-$muster_size}
muster_first_host "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_port=${MUSTER_PORT:-}
# Ports that Slurm itself reserved for this step come first: steps that run at the same time differ.
[ -n "$muster_port" ] || [ -n "${MUSTER_RANGE_ASKED:-}" ] || muster_port=${SLURM_STEP_RESV_PORTS:-}
muster_port=${muster_port%%[,-]*}
muster_id=$muster_job.${SLURM_STEP_ID:-0}.${SLURM_RESTART_COUNT:-0}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" "${SLURM_STEP_ID:-0}"
case ${SLURM_DISTRIBUTION:-block} in
*arbitrary*) muster_stop 'with --distribution=arbitrary nobody knows the host of rank 0' 'use block, cyclic or plane, or give --master-addr' ;;
esac
if [ -n "${OMPI_COMM_WORLD_RANK:-}" ] && [ "$OMPI_COMM_WORLD_RANK" != "$muster_rank" ]; then
    muster_stop "two launchers name this rank: srun says $muster_rank, Open MPI says $OMPI_COMM_WORLD_RANK" \
        'unset the OMPI_* variables of the outer mpirun, or use --launcher mpirun'
fi

# The CPUs that the kernel grants this rank, and its share of the physical cores among them.

# The core of CPU $1: by the first of its hardware threads. dash and busybox read byte by byte, and newer kernels (seen
# with 6.18) answer that with nothing for a list: then by the numbers of its package, die, cluster and core.
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

# CPUs of a list such as 0-3,8: how many ($muster_cpu_count), and on how many cores ($muster_core_count).
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

# Threads for a rank whose mask is $1, on a node with $2 of our ranks, when $3 CPUs were asked for (0: nothing asked).
muster_threads_of_mask() {
    muster_online=
    [ ! -r "${MUSTER_SYS:-/sys}/devices/system/cpu/online" ] || read -r muster_online <"${MUSTER_SYS:-/sys}/devices/system/cpu/online" || :
    muster_count_cpus "$1"
    # A mask wider than one rank's share is the node's: its ranks divide it between them.
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

# This process's mask, as the kernel writes it. Result in $muster_cpus.
muster_own_mask() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || muster_cpus=$muster_value
    done <"${MUSTER_PROC:-/proc}/self/status"
}

# Slurm starts a task elsewhere, in /tmp, where the node does not have the directory.
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

# Is this the start that was planned? A world of one, or every rank on one core, is found here and not in a week.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned and the launcher started $muster_size" 'another launcher may stand in between: take it out of the command'
[ "$muster_nodes" -lt 2 ] || [ -n "${MUSTER_LOCAL_NNODES:-}" ] || case $muster_address in
'' | localhost | localhost.* | 127.*) muster_stop "the address of rank 0 is '$muster_address', which every node takes for itself" 'leave --master-addr away, or name a host' ;;
esac
case $muster_address in
*:*:*) ;; # IPv6
*:*) muster_stop "MASTER_ADDR '$muster_address' holds a port" 'give the host with --master-addr and the port with --master-port' ;;
esac

# GPUs are asked for, and each rank picks its own: it has to see those of all ranks of its node.
# How many items a comma-separated list has. Result in $muster_count.
muster_count_items() {
    muster_count=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do muster_count=$((muster_count + 1)); done
    IFS=$muster_ifs
}

if [ "${MUSTER_GPUS:-0}" -gt 0 ]; then
    muster_visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}}
    muster_count_items "$muster_visible"
    [ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] ||
        muster_stop "rank $muster_rank sees the devices '$muster_visible' and shares its node with $muster_local_size ranks" \
            'ask for the GPUs of the node, not of the task: no --gpus-per-task or --gpu-bind, and unset what hides them'
fi

# The threads of a rank, and the variables of torch.
muster_own_mask
muster_threads_of_mask "$muster_cpus" "$muster_local_size" "${MUSTER_CPUS:-0}"
[ "${MUSTER_CPUS:-1}" -le 1 ] || [ "$muster_cpu_count" -ne 1 ] || muster_stop \
    "rank $muster_rank may use one CPU (number $muster_cpus) of the $MUSTER_CPUS that were asked for" \
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
# An agent's store that is promised and not there makes rank 0 wait for ever.
unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE

# What jax.distributed.initialize() needs besides its rank: the port of the meeting, or the one that an agent left free.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=${muster_jax_port:-$MASTER_PORT}
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi

# The user's command, untouched; only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
exec "$@"
MUSTER_TEXT
)

job
