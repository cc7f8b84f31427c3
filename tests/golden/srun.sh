#!/bin/bash
# Written by muster VERSION for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 -c 8 -t 1:30:00 -A science -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gpus-per-node=4
#SBATCH --account=science --time=01:30:00
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=8
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=look.sh \
        muster_task+=left.sh
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_count_ends of=ranks  # a 0 is believed after counting
    muster_end_watch
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.

{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
# Stops with the sentence $1 and the hint $2. It needs no other program, since an image may hold none.
muster_stop() {
    printf '%s\n' "muster: error: $1" '' "hint: $2" ${muster_who:+"muster: rank $muster_who ended with status 2"} >&2
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

# Computes a port below the ephemeral range, another one for the next job, from the ids of job $1 and step $2.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Succeeds if a program on this host listens on port $1, by the kernel's tables (0A: listening). Without grep, the port
# counts as free: a shell would read 4,000 open sockets for 24 s. grep is looked for on the node's own disk first.
muster_port_is_taken() {
    PATH=/usr/bin:/bin:$PATH grep -qs ":$(printf '%04X' "$1") [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp* 2>/dev/null
}
MUSTER_TEXT
eval "$muster_common"

# Reads words NAME=VALUE into variables muster_NAME. $1: the function that has them, a colon, and the names it knows.
muster_take() {
    muster_known=$1
    shift
    for muster_word in "$@"; do
        case "$muster_known $muster_word" in
        *" ${muster_word%%=*} "*=*) eval "muster_${muster_word%%=*}=\${muster_word#*=}" ;;
        *) muster_stop "${muster_known%%:*} knows no word '$muster_word'" \
            "its words are NAME=VALUE, of the names${muster_known#*:}" ;;
        esac
    done
}

# Begins the job: id, directory and size. dir: the working directory; tasks, cpus: planned ranks per node, CPUs per
# rank. The text below looks at each status itself: a set -e that was added to the header ends here.
muster_begin() {
    set +eu +o pipefail
    # These end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT && trap 'muster_interrupted=143' TERM && trap 'muster_interrupted=129' HUP
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'submit it with sbatch, or run it in salloc'
    muster_job=$SLURM_JOB_ID
    muster_take_size "$@"
    muster_find_run_directory
    muster_go_to "$muster_dir"
    muster_forget
}

# Ends the job with the exit status of its ranks.
muster_finish() {
    muster_leave_run_directory
    exit "${muster_interrupted:-$muster_status}"
}

# Finds the run directory: `muster submit` points the output to RUN/logs/batch.log, and ranks write files there.
# Otherwise it is made, all output goes to where sbatch sends that of the script, and RUN/output names this place.
muster_find_run_directory() {
    muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)
    muster_run_dir=${muster_chain_run:-${muster_output%/logs/batch.log}}
    [ "$muster_run_dir" != "$muster_output" ] ||
        muster_run_dir=${muster_moved_run:-${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job}
    (umask 077 && mkdir -p "$muster_run_dir/logs") || muster_stop "the directory $muster_run_dir/logs cannot be made" \
        'submit from a directory that the compute nodes can write'
    muster_keep_logs_in "$muster_run_dir/logs"
    if [ "$muster_output" != "$muster_logs/batch.log" ]; then
        (umask 077 && printf '%s\n' "$muster_output" >"$muster_run_dir/output") 2>/dev/null
        [ "$(type -t muster_open_errors)" != function ] || muster_open_errors
        muster_keeps_logs='' muster_output_flags=("${muster_error[@]}")
    fi
    # Space that the warning of muster_leave_run_directory needs when the disk is full.
    muster_room=$muster_logs/.room
    { printf '%16384s' '' >"$muster_room"; } 2>/dev/null || :
}

# Has the ranks write into the directory $1: each node to a file of its own.
muster_keep_logs_in() { muster_logs=$1 muster_keeps_logs=1 muster_output_flags=(--output="$1/%N.log"); }

# Removes the space that a job keeps for the warning of a full disk: nobody warns.
muster_leave_run_directory() { rm -f "$muster_room"; }

# Sets the size that Slurm granted, so that `sbatch -N 8 FILE` works; where Slurm does not name it, the planned size.
muster_take_size() {
    muster_take 'muster_begin: dir tasks cpus' "$@"
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-$muster_tasks}
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-${muster_cpus:-0}}
}

# Changes to the working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 does not exist" \
        'use a file system that the compute nodes see, or --chdir'
}

# Reads texts from Muster's folder $1, which `muster submit` has written. A word FILE names functions of this script;
# VARIABLE=FILE a value; VARIABLE+=FILE what takes the place of the line "# muster_read FILE" in a value. Where this
# host cannot read one, or another user owns it, the job goes on without the rest, and a line says so.
muster_read() {
    local word file text held words=("${@:2}")
    for word in "${words[@]}"; do
        file=${word#*=}
        if ! { [ -O "$1/$file" ] && text=$(<"$1/$file") && [[ $text == *$'\n# end' ]]; } 2>/dev/null; then
            [ ! -e "$1/$file" ] || [ -O "$1/$file" ] || file+=", another user's file"
            printf 'muster: warning: %s cannot read %s: the job runs without %s\n\nhint: %s\n' \
                "$(uname -n)" "$1/$file" "${words[*]##*=}" \
                'muster submit writes it for the user who types it; XDG_DATA_HOME names a place that the nodes see' >&2
            return
        fi
        case $word in
        *+=*)
            # Not by %% or #: bash tries such a pattern at each letter of the text, 3 ms for 8 KB.
            word=${word%%+*} file="# muster_read $file"$'\n'
            held=${!word}$'\n' text=${held/"$file"/"$text"$'\n'}
            ;;&
        *=*) printf -v "${word%%=*}" %s "$text" ;;
        *) eval "$text" ;;
        esac
        words=("${words[@]:1}")
    done
}

# Stops with the sentence $1: a path that the job needs is not there.
muster_not_there() {
    muster_stop "$1" 'is it on a file system that the compute nodes see?'
}

# Exports what was planned, NAME=VALUE as MUSTER_NAME: the prologue of every rank compares it with what it finds.
muster_expect() {
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    export "${@/#/MUSTER_}"
}

# Makes the folder of this job, and prints it: each rank, or agent of torchrun, has its end written there, in the file
# ATTEMPT.NODE. Where none can be made, srun's word on lost nodes is all that is known.
muster_ends() {
    local folder
    printf -v folder '%s/%s.%(%s)T.%s' "${muster_ends_dir:-$muster_run_dir/ranks}" "$SLURM_JOB_ID" -1 "$$"
    (umask 077 && mkdir -p "$folder") 2>/dev/null && printf '%s' "$folder" && "${muster_tell:-:}" ends "$folder"
}

# Makes a launcher's 0 another status where a process did not say that it ended with 0: srun says 0 where a rank died
# with its host. of: ranks, or agents of nodes.
muster_count_ends() {
    local muster_of each=$muster_ntasks_per_node
    muster_take 'muster_count_ends: of' "$@"
    [ "$muster_of" = ranks ] || each=1
    [ "$muster_status" -ne 0 ] || [ -n "${muster_interrupted:-}" ] || muster_read_ends
    [ "$muster_status" -eq 0 ] || return
    # The memory of nodes reads on which nodes a script ran well.
    [ -z "${muster_logs:-}" ] ||
        (umask 077 && printf '%(%s)T\t%s\n' -1 "$SLURM_JOB_NODELIST" >>"$muster_run_dir/well") 2>/dev/null
    # Beside a run directory that is not made, the end of the script removes it.
    [ -z "$MUSTER_ENDS" ] || [ -n "${muster_ends_dir:-}" ] ||
        { rm -rf "$MUSTER_ENDS" && rmdir "${MUSTER_ENDS%/*}"; } 2>/dev/null
}

# Reads the files of all nodes: the first rank that failed gives the status, and the ends of a host where the command
# began have to be there.
muster_read_ends() {
    local names=() node rank word due ended
    mapfile -t names < <(trap '' TERM && exec scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    for ((node = 0; node < muster_nodes; node++)); do
        due=0 ended=0
        while read -r rank word; do
            [ "$word" != begins ] || { due=$each && continue; }
            ended=$((ended + 1))
            [ "$muster_status" -ne 0 ] || muster_status=$word
            ((!word)) || printf 'muster: rank %s on %s ended with status %s\n' "$rank" "${names[node]:-?}" "$word" >&2
        done < <(cat "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}.$node" 2>/dev/null)
        [ "$ended" -lt "$due" ] || continue
        printf 'muster: how the %s on %s ended is not known\n\nhint: %s\n' "$muster_of" "${names[node]:-?}" \
            'a part of the work may be missing: start it again' >&2
        [ "$muster_status" -ne 0 ] || muster_status=1
    done
}

# A job that has not read the watch for hangs is not watched.
muster_watch_silence() { :; }
# Ends no watch.
muster_end_watch() { :; }

# Chooses a free port to meet at on the host of rank 0, if this is the one: jobs side by side take different ports.
muster_choose_port() {
    muster_first_host "$SLURM_JOB_NODELIST"
    read -r muster_here </proc/sys/kernel/hostname
    if [ "${SLURMD_NODENAME:-$muster_here}" != "$muster_first" ]; then
        # Ranks of the attempt before may still hold the port that follows from the ids of the job.
        [ "${muster_number:-1}" -eq 1 ] || muster_port_from_ids "$SLURM_JOB_ID" "$((muster_number * 7))"
        [ "${muster_number:-1}" -eq 1 ] || export MUSTER_PORT=$muster_port
        return 0
    fi
    muster_port_from_ids "$SLURM_JOB_ID" "$$"
    export MUSTER_PORT_CHOSEN=1
    for _ in {1..64}; do
        export MUSTER_PORT=$muster_port
        muster_port_is_taken "$muster_port" || return 0
        muster_port=$((MUSTER_PORT_LOW + (muster_port + 1 - MUSTER_PORT_LOW) % MUSTER_PORT_COUNT))
    done
    muster_stop "no free port between $MUSTER_PORT_LOW and $((MUSTER_PORT_LOW + MUSTER_PORT_COUNT))" \
        'give another range with --port-range'
}

# Lets the ranks' errors go past srun, unless they go to a socket or another user's pipe, which no name opens.
muster_open_errors() {
    muster_error=(--error=/dev/fd/9 --open-mode=append)
    { : >>/dev/fd/9; } 9>&2 2>/dev/null || muster_error=()
}

# Runs the srun command $@ where no watch was read: srun ends all ranks when one fails. Its own status may be that of a
# rank that srun ended (143), or 0 where a rank did not start: the end counts that the rank of its first message wrote.
muster_step() {
    local failed ended
    export MUSTER_DIRECTORY=$PWD
    failed=$(set -o pipefail && "${@/#--kill-on-bad-exit=0/--kill-on-bad-exit=1}" 2>&1 >&8 | (trap '' INT TERM HUP &&
        exec sed -unE -e 'w /dev/stderr' -e 's/^srun: error: ([^:]+: )?tasks? ([0-9]+)[^:]*: .*/\2/p' 2>&9))
    muster_status=$?
    ended=$(sed -n "s/^${failed%%$'\n'*} \([1-9]\)/\1/p" "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}".* 2>/dev/null)
    muster_status=${ended:-$((muster_status || !${#failed} ? muster_status : 1))}
} 8>&1 9>&2

# Unsets variables of outer jobs, launchers and the header that would change the step.
muster_forget() {
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE \
        SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV \
        SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT RANK WORLD_SIZE LOCAL_RANK \
        LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR \
        MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS \
        OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK MUSTER_ATTEMPT MUSTER_RESTARTS \
        MUSTER_CHECKPOINT MUSTER_SAVE_SIGNAL MUSTER_SAVE_RUN MUSTER_END MUSTER_ROLE MUSTER_ROLE_PORT MUSTER_ROLE_PORTS \
        MUSTER_ROLE_KEY MUSTER_PORT MUSTER_PORT_CHOSEN MUSTER_RANGE_ASKED MUSTER_ADDRESS MUSTER_HOST_SUFFIX \
        MUSTER_NODES MUSTER_STEP MUSTER_WIREUP MUSTER_PYTHON MUSTER_ENDS MUSTER_DOOR MUSTER_DOOR_KEY MUSTER_PIPES \
        MUSTER_AGENT_MODULE MUSTER_AGENT_NEEDS MUSTER_AGENT_FLAGS MUSTER_CHECKED MUSTER_OMP MUSTER_SLURM_NAMES \
        MUSTER_STAGE MUSTER_STAGE_SCRIPT MUSTER_STAGE_SCRIPT_HERE MUSTER_STAGE_IMAGE MUSTER_STAGE_IMAGE_HERE \
        MUSTER_STAGE_ENV MUSTER_STAGE_ENV_HERE MUSTER_STAGE_LIBRARY MUSTER_STAGE_BINDS
}

# What every started process runs before the command: POSIX sh, without Python.
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
# Who this task is, from the variables of its Slurm step: no daemon is asked.
[ -n "${SLURM_PROCID:+${SLURM_LOCALID:+${SLURM_NODEID:-}}}" ] || muster_stop \
    'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun'
muster_rank=$SLURM_PROCID muster_local_rank=$SLURM_LOCALID muster_node_rank=$SLURM_NODEID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_size=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-$muster_size}}
muster_local_size=${muster_local_size%%[(,]*}
muster_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}
muster_first_host "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_port=${MUSTER_PORT:-}
muster_id=$muster_job.${SLURM_STEP_ID:-0}.${SLURM_RESTART_COUNT:-0}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" "${SLURM_STEP_ID:-0}"

# If the node does not have the working directory, Slurm starts the task in /tmp.
[ -z "${MUSTER_DIRECTORY:-}" ] || cd "$MUSTER_DIRECTORY" 2>/dev/null || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the working directory $MUSTER_DIRECTORY" \
        'use a file system that the compute nodes see, or --chdir'
}
# A node without the Python of the environment would find another one.
[ -x "$MUSTER_PYTHON" ] || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the Python of the environment, $MUSTER_PYTHON" \
        'put the environment on a file system that the compute nodes see, or --stage-env'
}
# Compares the start with the plan: a rank that runs alone is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" \
    'the command may start another launcher: remove it from the command'
# Each rank picks its own GPU by its local rank, so each rank has to see the GPUs of all ranks of its node.
muster_visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}}
# shellcheck disable=SC2086  # split at its commas
muster_count=$(IFS=, && set -f && set -- $muster_visible && echo $#)
[ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] || muster_stop \
    "rank $muster_rank sees only the devices '$muster_visible', but its node has $muster_local_size ranks" \
    'ask for GPUs per node, not per task: remove --gpus-per-task, --gpu-bind and the variables that hide GPUs'
# Counts the CPUs of the list $1, such as 0-3,8, and their cores. The numbers below name a core: of thread_siblings_list
# newer kernels (seen with 6.18) return nothing to dash and busybox, which read byte by byte.
muster_count_cpus() {
    muster_cpu_count=0 muster_core_count=0 muster_cores=,
    muster_ifs=$IFS && IFS=,
    for muster_range in $1; do
        muster_cpu=${muster_range%-*}
        while [ "$muster_cpu" -le "${muster_range#*-}" ]; do
            muster_cpu_count=$((muster_cpu_count + 1))
            muster_core=
            for muster_name in physical_package_id die_id cluster_id core_id; do
                muster_number='' muster_file=${MUSTER_SYS:-/sys}/devices/system/cpu/cpu$muster_cpu/topology/$muster_name
                [ ! -r "$muster_file" ] || read -r muster_number <"$muster_file" || :
                muster_core=$muster_core.$muster_number
            done
            [ "$muster_core" != .... ] || muster_core=$muster_cpu
            case $muster_cores in
            *,"$muster_core",*) ;;
            *) muster_cores=$muster_cores$muster_core, muster_core_count=$((muster_core_count + 1)) ;;
            esac
            muster_cpu=$((muster_cpu + 1))
        done
    done
    IFS=$muster_ifs
}

# Finds the threads of a rank by its CPU mask, $muster_cpus. $1: ranks of its node, $2: the CPUs asked for (0: none).
muster_find_threads() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || { muster_cpus=$muster_value && break; }
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
# All ranks on one core would be slow without a message.
[ "${MUSTER_CPUS:-1}" -le 1 ] || [ "$muster_cpu_count" -ne 1 ] || muster_stop \
    "rank $muster_rank may use only one CPU (number $muster_cpus) of the $MUSTER_CPUS that were asked for" \
    'the step was started without --cpus-per-task: let Muster write the srun line'
# Sets the variables that torch reads.
if [ "$muster_rank" -eq 0 ] && [ -z "${MUSTER_PORT_CHOSEN:-}" ] && muster_port_is_taken "$muster_port"; then
    muster_stop "port $muster_port of $muster_address is taken by another program" \
        'start again, or choose one with --master-port'
fi
export RANK="$muster_rank" WORLD_SIZE="$muster_size" LOCAL_RANK="$muster_local_rank"
export LOCAL_WORLD_SIZE="$muster_local_size" GROUP_RANK="$muster_node_rank" GROUP_WORLD_SIZE="$muster_nodes"
export NODE_RANK="$muster_node_rank" ROLE_NAME=default ROLE_RANK="$muster_rank" ROLE_WORLD_SIZE="$muster_size"
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port"
export TORCHELASTIC_RUN_ID="$muster_id" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
# With this variable, rank 0 would wait for ever for an agent's store that does not exist.
unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
# The address for jax.distributed.initialize(), with the port of the meeting point, or one that the agent leaves free.
case $MASTER_ADDR in *:*) muster_jax_host=[$MASTER_ADDR] ;; *) muster_jax_host=$MASTER_ADDR ;; esac
export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-$muster_jax_host:${muster_jax_port:-$MASTER_PORT}}"
# muster_read look.sh

# Where the script counts the ends (MUSTER_ENDS), the shell around the command writes into the file of its node that the
# command begins, and how it ended.
muster_ends=${MUSTER_ENDS:+$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}.$muster_node_rank}
unset MUSTER_ENDS

# Writes the words $@ into that file. Its first line comes early, so that a full disk has room for the others.
muster_note() {
    [ -z "$muster_ends" ] || echo "$@" >>"$muster_ends"
} 2>/dev/null

# Writes that the command begins: the first rank of each node does.
muster_note_begin() {
    [ "${muster_local_rank:-0}" -ne 0 ] || muster_note "$muster_rank" begins
}

# Becomes the command $@. All processes that the command starts inherit the mark, which names this start on this node
# alone.
muster_marked() {
    [ -z "$muster_ends" ] || export MUSTER_MARK="$muster_ends"
    exec "$@"
}
# muster_read left.sh

# Runs the command $@, and ends with its status or by its signal. This shell stays if the ends are counted, or if rank 0
# looks at its own end. The launcher reports a signal, so this shell does not; it notes one that it got itself.
muster_stay() {
    [ -n "$muster_ends${muster_at_end:-}" ] || exec "$@"
    muster_note_begin
    # A number that is free: an MPI may have opened any.
    muster_free=9
    while [ -e "/proc/$$/fd/$muster_free" ] && [ "$muster_free" -gt 2 ]; do muster_free=$((muster_free - 1)); done
    trap '[ -z "$muster_ends" ] || echo >"$muster_ends.signalled"' HUP INT QUIT USR1 USR2 ALRM TERM XCPU
    if [ "$muster_free" -gt 2 ]; then
        eval "exec $muster_free>&2 2>/dev/null"
        (eval "exec 2>&$muster_free $muster_free>&-" && muster_marked "$@")
    else
        (muster_marked "$@")
    fi
    muster_status=$?
    [ "$muster_status" -ne 0 ] || "${muster_at_end:-:}" 2>&"$muster_free"
    muster_note "$muster_rank" "$muster_status"
    "${muster_when_over:-:}" 2>&"$muster_free"
    [ "$muster_status" -gt 128 ] || exit "$muster_status"
    # The core file of the command stays. dash, busybox and bash have this limit.
    # shellcheck disable=SC3045
    ulimit -c 0
    trap - HUP INT QUIT USR1 USR2 ALRM TERM XCPU
    kill -"$((muster_status - 128))" "$$"
    exit "$muster_status"
}
# Runs the user's command, unchanged. Only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
muster_stay "$@"
MUSTER_TEXT

job
