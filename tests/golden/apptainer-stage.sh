#!/bin/bash
# Written by muster 0.1.0 for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 --image /images/x.sif --stage-env --stage '/scratch/it'"'"'s data' -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 0
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000
    # Copies on the nodes' own disks. If a thing cannot be staged, a warning names it; the shared one is used.
    muster_stage_begin /tmp -
    muster_stage_thing 1 'the image /images/x.sif' /home/ada/project/muster-runs/stage/x.sif-cf81b4c4 /images/x.sif -- \
        /images/x.sif && {
        muster_stage_image /images/x.sif /images/x.sif
    }
    muster_stage_thing 2 '/scratch/it'"'"'s data' '/home/ada/project/muster-runs/stage/it'"'"'s data-fc46bfb9' \
        '/pfs/it'"'"'s data' -- '/pfs/it'"'"'s data' && {
        muster_stage_over '/pfs/it'"'"'s data'
    }
    muster_stage_script train.py /home/ada/project/train.py
    muster_stage_bind APPTAINER_BIND
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 18 apptainer --quiet exec --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/x.sif python -I -S -c \
        "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_remove_unpacked
    muster_stage_end
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

# Begins the job: finds its id, its directory and its size, and unsets what other jobs and launchers left. $1: the
# working directory. $2 and $3: the planned ranks per node and CPUs per rank (0: not asked for).
muster_begin() {
    # Ctrl-C, SIGTERM and SIGHUP end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'submit this file with sbatch, or run it inside salloc'
    muster_job=$SLURM_JOB_ID
    muster_find_run_directory
    muster_go_to "$1"
    muster_take_size "${@:2}"
    muster_forget
}

# Ends the job with the exit status of its ranks.
muster_finish() {
    muster_leave_run_directory
    exit "${muster_interrupted:-$muster_status}"
}

# Finds the run directory: `muster submit` points the output to RUN/logs/batch.log, and the run keeps the output of its
# ranks in files (muster_keeps_logs). Without that, the directory is made, all output goes to where sbatch sends that of
# the script, and RUN/output names this place.
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

# Warns, at the end of the job, that its disk is full: lines of the output may be missing, and no launcher says so.
muster_leave_run_directory() {
    { printf '%16384s' '' >>"$muster_room"; } 2>/dev/null
    local has_room=$?
    rm -f "$muster_room"
    [ "$has_room" -eq 0 ] || printf 'muster: warning: the disk of %s takes no more (full, or over its quota): %s\n' \
        "$muster_logs" 'the end of the output may be missing' >&2
}

# Sets the size that Slurm granted, so that `sbatch -N 8 FILE` works; where Slurm does not name it, the planned size.
muster_take_size() {
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-$1}
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-$2}
}

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

# Chooses a free port for the meeting point, if the job's script runs on the host of rank 0: jobs that start side by
# side then take different ports.
muster_choose_port() {
    muster_first_host "$SLURM_JOB_NODELIST"
    read -r muster_here </proc/sys/kernel/hostname
    [ "${SLURMD_NODENAME:-$muster_here}" = "$muster_first" ] || return 0
    muster_port_from_ids "$SLURM_JOB_ID" "$$"
    export MUSTER_PORT_CHOSEN=1
    for _ in {1..64}; do
        export MUSTER_PORT=$muster_port
        muster_port_is_taken "$muster_port" || return 0
        muster_port=$((MUSTER_PORT_LOW + (muster_port + 1 - MUSTER_PORT_LOW) % MUSTER_PORT_COUNT))
    done
    muster_stop "no free port between $MUSTER_PORT_LOW and $((MUSTER_PORT_LOW + MUSTER_PORT_COUNT))" 'give another range with --port-range'
}

# Makes a temporary file for the launcher's report, where no file of the run holds it.
muster_keep_report() {
    muster_report=$(mktemp) && trap 'rm -f "$muster_report"' EXIT
}

# Waits at most one second for the process $1 that keeps the report: a process that left its rank's group may hold the
# pipe open after the launcher has ended.
muster_report_kept() {
    for _ in {1..20}; do kill -0 "$1" 2>/dev/null && sleep 0.05; done
}

# Decides where the ranks' errors go. A socket, or a pipe of another user, cannot be opened by its name. Then srun's
# messages and the ranks' errors share one stream.
muster_open_errors() {
    muster_error=(--error=/dev/fd/9 --open-mode=append)
    { : >>/dev/fd/9; } 9>&2 2>/dev/null || muster_error=()
}

# Runs srun, the words $@, as a step. Where the run keeps no files, a report of the errors is kept.
muster_step_reported() {
    if [ -n "$muster_keeps_logs" ]; then
        muster_step "$@"
        return
    fi
    muster_keep_report
    muster_step "$@" 2> >(tee -i "$muster_report" >&2)
    muster_report_kept "$!"
}

# Reads srun's messages, passes every line on, and prints the exit status of the first rank that failed: srun's own
# status is that of the ended step (143, 137). After the first failure the other ranks get SIGTERM, and SIGKILL $1
# seconds later. srun's --kill-on-bad-exit would send SIGKILL only after the cluster's KillWait, and blocks other
# signals until then.
muster_watch() {
    trap '' INT TERM HUP
    local line status='' seen='' pid=''
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        'muster-status '*) status=${line#muster-status } && continue ;;
        'muster-srun '*) pid=${line#muster-srun } && continue ;;
        esac
        printf '%s\n' "$line" >&9
        [ -z "$seen" ] || continue
        muster_status_in "$line"
        [ -z "$seen" ] || { muster_end_step TERM "$pid" && muster_end_step KILL "$pid" "$1"; }
    done
    [ -z "$seen" ] || { kill -KILL "$!" && wait "$!"; } 2>/dev/null
    # srun itself was killed, so its ranks have to be ended here.
    [ -n "$seen" ] || [ "${status:-0}" -ne 137 ] || muster_end_step KILL "$pid"
    printf '%s\n' "${seen:-$status}"
}

# Sends the signal $1 to the step of the srun with the pid $2, after $3 seconds. If the controller does not answer, srun
# gets SIGTERM. No process sleeps here: a reader of this output would have to wait for it.
muster_end_step() {
    (
        [ -z "${3:-}" ] || read -rt "$3" <> <(:)
        step=$(scontrol --oneliner show step "$SLURM_JOB_ID" |
            sed -nE "s/^StepId=([^ ]*) .*SrunHost:Pid=[^ ]*:$2( .*|$)/\\1/p")
        [ -n "$step" ] || exec kill "$2"
        exec scancel --quiet --signal="$1" "$step"
    ) </dev/null >/dev/null 2>&1 7>&- 8>&- 9>&- &
}

# Reads the exit status from one line of srun, if the line reports the end of a task. Result in $seen.
muster_status_in() {
    local what
    local -A signals=([Hangup]=1 [Interrupt]=2 [Quit]=3 ['Illegal instruction']=4 ['Trace/breakpoint trap']=5 [Aborted]=6
        ['Bus error']=7 ['Floating point exception']=8 [Killed]=9 ['Out Of Memory']=9 ['User defined signal 1']=10
        ['Segmentation fault']=11 ['User defined signal 2']=12 ['Broken pipe']=13 ['Alarm clock']=14 [Terminated]=15
        ['CPU time limit exceeded']=24 ['File size limit exceeded']=25)
    [[ $1 != 'srun: interrupt '* ]] || seen=130
    [[ $1 =~ ^srun:\ error:\ [^:]+:\ tasks?\ [0-9,-]+:\ (.+)$ ]] || return 0
    what=${BASH_REMATCH[1]%' (core dumped)'}
    case $what in
    'Exited with exit code '*) seen=${what##* } ;;
    *) [ -z "${signals[$what]:-}" ] || seen=$((128 + ${signals[$what]})) ;;
    esac
}

# Runs the srun command $@. Result in $muster_status. Only srun's own messages pass through here, not the ranks' output.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        {
            (printf 'muster-srun %s\n' "$BASHPID" >&7 && exec "$@" 2>&7 >&8)
            printf 'muster-status %s\n' "$?" >&7
        } 7>&1 2>/dev/null | muster_watch "$((${muster_keeper:+1+}MUSTER_GRACE))"
    )
    : "${muster_status:=143}" # a signal to the whole group also ended the reader of the messages
} 8>&1 9>&2

# Finds the exit status of the first rank that failed, in the reports $@: torchrun itself always ends with 1. Each node
# reports its first failure. The earliest one that torchrun did not cause itself (SIGTERM) is the job's. Result in
# $muster_status.
muster_torchrun_status() {
    local found
    [ "$muster_status" -ne 0 ] || return 0
    found=$(awk '
        /Root Cause \(first observed failure\)/ { root = 1 }
        root && / time +: / { when = $3 }
        root && / exitcode +: / { print ($3 == -15), when, $3; root = 0 }
    ' "$@" 2>/dev/null | sort | head -n 1)
    found=${found##* }
    case $found in
    -*) muster_status=$((128 + ${found#-})) ;;
    [1-9]*) muster_status=$found ;;
    esac
}

# (the part unpacked)

# Staging: copies on the nodes' own disks, on all nodes or on none. If a thing cannot be staged, a warning names it and
# the ranks use the shared one.
muster_stage_warn() { printf 'muster: warning: %s\n' "$*" >&2; }

# Starts a helper on every node of the job. $1: the folder on the nodes, $2: where to bring what the ranks write (or -).
muster_stage_begin() {
    muster_stage_top=$1/muster-stage-$UID
    muster_stage_out=$2
    [ "$2" = - ] || mkdir -p "$2" || muster_stop "the directory $2, for the files that the ranks write, cannot be made" \
        'give another one with --stage-out'
    muster_stage_nodes=$SLURM_JOB_NUM_NODES
    muster_stage_mounts=()
    muster_stage_trouble=
    muster_stage_alive=1
    # A helper that has ended is noticed by its missing answers.
    trap '' PIPE
    # The helpers run beside the ranks and ignore Ctrl-C: they still have to bring what the ranks wrote.
    coproc muster_stage_step {
        trap '' INT
        # shellcheck disable=SC2016,SC2154  # the shell on the nodes expands it; another part sets the text
        exec srun --overlap --nodes="$muster_stage_nodes" --ntasks="$muster_stage_nodes" --ntasks-per-node=1 \
            --mpi=none --export=ALL --kill-on-bad-exit=0 --quiet --input=all --job-name=muster-stage \
            sh -c 'exec sh -c "$1" muster-stage "$2" "$3" "$4" "$SLURM_NODEID" "$5"' muster-stage \
            "$muster_stage_node" "$muster_stage_top" "$SLURM_JOB_ID" "$muster_stage_nodes" "$muster_stage_out" 2>&1
    }
    muster_stage_pid=$!
    exec {muster_stage_from}<&"${muster_stage_step[0]}" {muster_stage_to}>&"${muster_stage_step[1]}"
    eval "exec ${muster_stage_step[0]}<&- ${muster_stage_step[1]}>&-"
    muster_stage_hear start ready || muster_stage_lose "$muster_stage_trouble"
}

# Gives up staging because of $1, with one warning.
muster_stage_lose() {
    [ "$muster_stage_alive" -eq 0 ] || muster_stage_warn "nothing is staged: $1; all ranks use the shared files"
    muster_stage_alive=0
    unset MUSTER_STAGE
    trap - PIPE
    kill "$muster_stage_pid" 2>/dev/null
}

# Reads an answer about $1 from every node. Succeeds if all answers are $2. If a node has sent a chunk, all are told.
muster_stage_hear() {
    local word host about answer count=0 said=()
    muster_stage_answers=()
    while [ "$count" -lt "$muster_stage_nodes" ]; do
        if ! IFS=$'\t' read -r -t 900 -u "$muster_stage_from" word host about answer; then
            muster_stage_trouble="${said[0]:-a node does not answer}"
            muster_stage_alive=2
            return 1
        fi
        if [ "$word" != muster-stage ]; then
            said=("$word $host $about $answer")
            continue
        fi
        [ "$about" = "$1" ] || continue
        case $answer in
        'sent '*) printf 'chunk\t%s\n' "${answer#sent }" >&"$muster_stage_to" ;;
        'unsent '*)
            muster_stage_trouble="${answer#unsent } does not accept the copy: its disk may be full"
            return 1
            ;;
        *)
            count=$((count + 1))
            muster_stage_answers+=("$answer")
            case $answer in
            "$2" | need) ;;
            full) muster_stage_trouble="$muster_stage_top on $host has no room for it" ;;
            foreign) muster_stage_trouble="$muster_stage_top on $host belongs to another user" ;;
            damaged) muster_stage_trouble="the copy on $host differs from what was packed" ;;
            no-zstd) muster_stage_trouble="$host has no zstd to unpack it" ;;
            closed*) muster_stage_trouble="$host does not let users mount (${answer#closed })" ;;
            *) muster_stage_trouble="$host answered: $answer" ;;
            esac
            ;;
        esac
    done
    [ -z "$muster_stage_trouble" ]
}

# Stages one thing. $1: its number, $2: its name in words, $3: the folder with its packed form; then the paths in it;
# after -- the paths whose change makes the packed form old. The path of the copy is in $muster_stage_place.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_thing() {
    local number=$1 what=$2 packed=$3 key kind count digest when file=- path paths=() began=$SECONDS
    shift 3
    while [ "$1" != -- ]; do
        paths+=("$1")
        shift
    done
    shift
    muster_stage_place=
    muster_stage_trouble=
    [ "$muster_stage_alive" -eq 1 ] || return 1
    if ! IFS=$'\t' read -r key kind count digest when 2>/dev/null <"$packed/latest"; then
        muster_stage_trouble='it is not packed yet (muster submit and muster run pack it)'
    else
        for path in "$@"; do
            [ ! "$path" -nt "$packed/latest" ] ||
                muster_stage_trouble="$path has changed since it was packed ($when)"
        done
    fi
    [ "$kind" != file ] || file=${paths[0]}
    if [ -z "$muster_stage_trouble" ]; then
        printf 'look\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
            "$number" "$key" "$kind" "$count" "$digest" "$packed/$key" "$file" >&"$muster_stage_to"
        muster_stage_hear "$number" have
        if [ -z "$muster_stage_trouble" ] && [[ " ${muster_stage_answers[*]} " == *' need '* ]]; then
            printf 'fetch\n' >&"$muster_stage_to"
            muster_stage_hear "$number" have || [ "$muster_stage_alive" -ne 1 ] || printf 'drop\n' >&"$muster_stage_to"
        fi
    fi
    if [ "$muster_stage_alive" -ne 1 ]; then
        muster_stage_lose "$muster_stage_trouble"
        return 1
    fi
    if [ -n "$muster_stage_trouble" ]; then
        muster_stage_warn "$what is not staged: $muster_stage_trouble; all ranks use the shared one"
        return 1
    fi
    muster_stage_place=$muster_stage_top/$key-${digest:0:8}
    printf 'muster: %s: on %s nodes (%s s), as of %s\n' "$what" "$muster_stage_nodes" "$((SECONDS - began))" "$when" >&2
}

# Notes the paths $@, which lie under $muster_stage_place: the ranks will see each one under its own name.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_over() {
    local path
    for path in "$@"; do
        muster_stage_mounts+=("$muster_stage_place$path"$'\t'"$path")
    done
}

# Copies the folder of the script $1, without its subfolders: Python looks there for each module that it imports.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_script() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    muster_stage_trouble=
    printf 'script\t%s\n' "$2" >&"$muster_stage_to"
    if muster_stage_hear script made; then
        export MUSTER_STAGE_SCRIPT=$1 MUSTER_STAGE_SCRIPT_HERE=$muster_stage_top/job-$SLURM_JOB_ID/script/${2##*/}
    else
        muster_stage_warn "the script's folder is not staged: $muster_stage_trouble"
    fi
}

# Uses the copy of the environment $1, its Python and all other paths that are packed with it.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_environment() {
    muster_stage_environment_at=$muster_stage_place
    printf 'settle\t%s\t%s\n' "$muster_stage_place" "$1" >&"$muster_stage_to"
    muster_stage_over "$@"
    # The environment is started under this name: the folders above it are then on the node's disk, too.
    export MUSTER_STAGE_ENV=$1 MUSTER_STAGE_ENV_HERE=$muster_stage_place$1
}

# Keeps the shared path $1, which is not in the archive.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_except() {
    muster_stage_mounts+=("$1"$'\t'"$muster_stage_place$1")
}

# Starts the copy of the image $2, which the command names as $1.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_image() {
    export MUSTER_STAGE_IMAGE=$1 MUSTER_STAGE_IMAGE_HERE=$muster_stage_place$2
}

# Names the node's folder for the ranks: what they find there, and where they write.
muster_stage_ready() {
    [ "$muster_stage_alive" -eq 1 ] || return 1
    export MUSTER_STAGE=$muster_stage_top/job-$SLURM_JOB_ID
    [ "$muster_stage_out" = - ] || muster_stage_mounts+=("$MUSTER_STAGE/out"$'\t'"$muster_stage_out")
}

# Stages the folder $1 of the rank library.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_library() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    printf 'library\t%s\n' "$1" >&"$muster_stage_to"
    export MUSTER_STAGE_LIBRARY=$1
}

# Mounts the copies over the shared paths, in a mount namespace that the ranks of each node enter.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_mount() {
    muster_stage_ready || return 0
    if [ "${#muster_stage_mounts[@]}" -eq 0 ]; then
        trap - PIPE
        return 0
    fi
    muster_stage_trouble=
    printf 'bind\t%s\n' "${muster_stage_mounts[@]}" >&"$muster_stage_to"
    printf 'hold\n' >&"$muster_stage_to"
    muster_stage_hear mount mounted && trap - PIPE && return
    [ "$muster_stage_alive" -eq 1 ] || muster_stage_lose "$muster_stage_trouble"
    [ "$muster_stage_alive" -ne 1 ] || printf 'let-go\n' >&"$muster_stage_to"
    trap - PIPE
    return 1
}

# Decides what to use where users may not mount. An environment that works under another path ($1; else -) is used under
# the path of its copy.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_closed() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    if [ "$1" != - ] && [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn "$muster_stage_trouble: the ranks use the environment as $MUSTER_STAGE_ENV_HERE and all other shared files"
    elif [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn "$muster_stage_trouble, and the environment contains its own path (it is not relocatable): all ranks use the shared files"
        unset MUSTER_STAGE_ENV
    else
        muster_stage_warn "$muster_stage_trouble: all ranks use the shared files"
    fi
    muster_stage_out=-
}

# Binds the copies into the image under the shared paths, by its engine's variable $1.
# shellcheck disable=SC2317  # not every job uses it
muster_stage_bind() {
    muster_stage_ready || return 0
    trap - PIPE
    local each bind binds=
    for each in "${muster_stage_mounts[@]}"; do
        bind=${each//\\/\\\\}
        bind=${bind//,/\\,}
        bind=${bind//:/\\:}
        binds=$binds${binds:+,}${bind//$'\t'/:}
    done
    [ -z "$binds" ] || export MUSTER_STAGE_BINDS="$1 $binds"
}

# Brings what the ranks wrote, and ends the helpers.
muster_stage_end() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    local word host about answer seen=0
    trap '' PIPE
    printf 'end\t%s\n' "$muster_run_dir" >&"$muster_stage_to"
    while IFS=$'\t' read -r -t 900 -u "$muster_stage_from" word host about answer; do
        [ "$word" = muster-stage ] || continue
        case $about:$answer in
        out:brought*)
            seen=$((seen + 1))
            [ "${answer#brought }" -eq 0 ] || printf 'muster: %s: %s files to %s\n' "$host" "${answer#brought }" "$muster_stage_out" >&2
            ;;
        out:kept*) muster_stage_warn "what the ranks wrote on $host could not be brought to $muster_stage_out: it stays on $host in ${answer#kept }" ;;
        script:*) muster_stage_warn "the script wrote files into its own folder on $host: they are now in $answer" ;;
        end:*) ;;
        esac
    done
    [ "$muster_stage_out" = - ] || [ "$seen" -eq "$muster_stage_nodes" ] ||
        muster_stage_warn "only $seen of $muster_stage_nodes nodes report that their files are in $muster_stage_out; the others keep them in $muster_stage_top"
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
# Who this task is, from the variables of its Slurm step: no daemon is asked.
[ -n "${SLURM_PROCID:+${SLURM_LOCALID:+${SLURM_NODEID:-}}}" ] || muster_stop \
    'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun'
muster_rank=$SLURM_PROCID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_rank=$SLURM_LOCALID
muster_local_size=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-$muster_size}}
muster_local_size=${muster_local_size%%[(,]*}
muster_node_rank=$SLURM_NODEID
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

# One torchrun agent runs on each node. The agent is told whether it hosts the meeting point, so it compares no names.
read -r muster_here </proc/sys/kernel/hostname
muster_host=0
[ "$muster_node_rank" -ne 0 ] || muster_host=1
[ "$muster_host" -eq 0 ] || ! muster_port_is_taken "$muster_port" || muster_stop \
    "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
# This is a variable, not an option: a torch that is too old for it ignores the variable.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${MUSTER_GRACE:-10}"
# torchrun sets 1 when the variable is missing. Each rank then replaces this 1 with its own share.
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS=1 MUSTER_OMP=own
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="\${rank}: "

# The first word of the command is a number.
muster_counted=1

# Checks that this node has the program $1 and sees the image $2.
muster_image_needs() {
    read -r muster_here </proc/sys/kernel/hostname
    command -v "$1" >/dev/null || muster_stop "the node $muster_here has no $1" \
        'load its module with --module, or name another engine with --engine'
    case $2 in
    /*) [ -e "$2" ] || muster_stop "the node $muster_here does not see the image $2" \
        'put the image on a file system that the compute nodes see' ;;
    esac
}

# Checks that this node has every path that is bound into the image.
muster_image_sees() {
    for muster_path in "$@"; do
        [ -e "$muster_path" ] || muster_stop "the node $muster_here has no $muster_path, but the image has to see it" \
            'give another path with --bind, or correct the site profile'
    done
}

# Carries this rank's variables and directories into the image, also where a site's settings clean the environment.
# Apptainer reads variables that begin with its prefix and runs their values through a shell. Characters that a shell
# would expand are therefore escaped.

# Puts a backslash before each character of $2 that is in $1 (characters of a bracket pattern). Result in
# $muster_escaped.
muster_escape() {
    muster_escaped=
    muster_rest=$2
    while :; do
        # shellcheck disable=SC2295  # $1 is part of the pattern
        muster_head=${muster_rest%%[$1]*}
        muster_escaped=$muster_escaped$muster_head
        [ "$muster_head" != "$muster_rest" ] || return 0
        muster_rest=${muster_rest#"$muster_head"}
        muster_escaped=$muster_escaped\\${muster_rest%"${muster_rest#?}"}
        muster_rest=${muster_rest#?}
    done
}

# Checks that the image $2 starts sh: torchrun starts its ranks inside. An image that has to be unpacked is not checked.
muster_image_has_sh() {
    eval "[ -z \"\${$3_UNSQUASH:-}\" ]" || return 0
    "$1" --quiet exec "$2" sh -c : </dev/null >/dev/null 2>&1 || muster_stop \
        "the image $2 cannot start sh on $muster_here, but the ranks of torchrun need sh" \
        "try $1 exec $2 sh; with --launcher srun the image does not need sh"
}

# Checks that the C library of the image $2 is not older than the one that the host's libraries after $3 need: they are
# bound into the image. One rank of each node checks. An image that has to be unpacked, or has no getconf, is not
# checked.
muster_image_loads() {
    eval "[ -z \"\${$3_UNSQUASH:-}\" ]" || return 0
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_has=$("$1" --quiet exec "$2" getconf GNU_LIBC_VERSION 2>/dev/null </dev/null)
    case $muster_has in
    'glibc 2.'*[!0-9]* | '') return 0 ;;
    'glibc 2.'*) muster_has=${muster_has#glibc 2.} ;;
    *) return 0 ;;
    esac
    muster_of=$2
    shift 3
    for muster_path in "$@"; do
        muster_wants=$(grep -ao 'GLIBC_2\.[0-9][0-9]*' "$muster_path" 2>/dev/null | sort -t. -k2 -n | tail -n 1)
        muster_wants=${muster_wants#GLIBC_2.}
        [ "$muster_has" -ge "${muster_wants:-0}" ] || muster_stop \
            "the image $muster_of has glibc 2.$muster_has, but $muster_path of the host, which is bound into the image, needs 2.$muster_wants" \
            'build the image on a newer base: the ranks reach the fabric of this site through that library'
    done
}

# Binds the run directory and the job's temporary directory, unless one of the paths after $1 already holds them.
muster_image_takes() {
    muster_prefix=$1
    shift
    muster_more=
    for muster_path in "${MUSTER_RUN_DIR:-}" "${TMPDIR:-}"; do
        [ -d "$muster_path" ] || continue
        for muster_bound in "$@"; do
            case $muster_path/ in
            "$muster_bound"/*) continue 2 ;;
            esac
        done
        muster_escape '\\,:' "$muster_path"
        muster_more=$muster_more${muster_more:+,}$muster_escaped
    done
    [ -z "$muster_more" ] || eval "export ${muster_prefix}_BIND=\"\${${muster_prefix}_BIND:+\$${muster_prefix}_BIND,}\$muster_more\""
}

# Passes on the variables after $1 that are set.
muster_image_gets() {
    muster_prefix=$1
    shift
    for muster_name in "$@"; do
        eval "[ -n \"\${$muster_name+set}\" ]" || continue
        eval "muster_value=\$$muster_name"
        # shellcheck disable=SC2154  # assigned a line above
        muster_escape '\\$`' "$muster_value"
        export "$muster_prefix$muster_name=$muster_escaped"
    done
}

# Passes on the variables by which the MPI of the host identifies its ranks. Without them each rank in the image would
# be alone.
muster_image_joins() {
    for muster_name in $(env | sed -n 's/^\(OMPI_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PMIX\{0,1\}2\{0,1\}_[A-Za-z0-9_]*\)=.*/\1/p'); do
        muster_image_gets "$1" "$muster_name"
    done
}

# Puts the folder $2 last on PYTHONPATH, by the variable $1: after the user's value, else after the image's value.
muster_image_library() {
    eval "muster_value=\${$1-}"
    if [ -n "$muster_value" ]; then
        export "$1=$muster_value:$2"
    else
        export "$1=\${PYTHONPATH:+\$PYTHONPATH:}$2"
    fi
}

# (the part image_unpack)

muster_image_needs apptainer /images/x.sif
muster_image_opens apptainer APPTAINER /images/x.sif
muster_image_has_sh apptainer /images/x.sif APPTAINER
muster_image_sees /tmp /home/ada /opt/venv/muster
muster_image_takes APPTAINER /tmp /home/ada
muster_image_gets APPTAINERENV_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS MUSTER_LOCAL_NNODES MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_NODES MUSTER_WIREUP MUSTER_GRACE MUSTER_CPUS MUSTER_OMP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK TORCH_ELASTIC_SHUTDOWN_TIMEOUT TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE PYTHONNOUSERSITE RES_OPTIONS
muster_image_library APPTAINERENV_PYTHONPATH /opt/muster-ranks
eval 'eval "$muster_image_words"'

# Uses the staged copies instead of the shared files: first it replaces their paths in the command, then it enters the
# mount namespace that the helper of this node holds.
if [ -n "${MUSTER_STAGE:-}" ]; then
    if [ -d "$MUSTER_STAGE/ranks" ]; then
        : >"$MUSTER_STAGE/ranks/$$"
    else
        read -r muster_here </proc/sys/kernel/hostname
        printf 'muster: warning: no copy is staged on %s: its ranks use the shared files\n' "$muster_here" >&2
        unset MUSTER_STAGE_SCRIPT MUSTER_STAGE_IMAGE MUSTER_STAGE_ENV MUSTER_STAGE_LIBRARY MUSTER_STAGE_BINDS
    fi
    muster_rest=$#
    while [ "$muster_rest" -gt 0 ]; do
        muster_word=$1
        shift
        [ -z "${MUSTER_STAGE_SCRIPT:-}" ] || [ "$muster_word" != "$MUSTER_STAGE_SCRIPT" ] || muster_word=$MUSTER_STAGE_SCRIPT_HERE
        [ -z "${MUSTER_STAGE_IMAGE:-}" ] || [ "$muster_word" != "$MUSTER_STAGE_IMAGE" ] || muster_word=$MUSTER_STAGE_IMAGE_HERE
        if [ -n "${MUSTER_STAGE_ENV:-}" ]; then
            case $muster_word in
            "$MUSTER_STAGE_ENV"/*) muster_word=$MUSTER_STAGE_ENV_HERE${muster_word#"$MUSTER_STAGE_ENV"} ;;
            esac
        fi
        set -- "$@" "$muster_word"
        muster_rest=$((muster_rest - 1))
    done
    if [ -n "${MUSTER_STAGE_ENV:-}" ]; then
        export PATH="$MUSTER_STAGE_ENV_HERE/bin:$PATH"
        [ -z "${VIRTUAL_ENV:-}" ] || export VIRTUAL_ENV="$MUSTER_STAGE_ENV_HERE"
        [ -z "${CONDA_PREFIX:-}" ] || export CONDA_PREFIX="$MUSTER_STAGE_ENV_HERE"
    fi
    if [ -n "${MUSTER_STAGE_LIBRARY:-}" ]; then
        case ${PYTHONPATH:-} in
        *"$MUSTER_STAGE_LIBRARY") export PYTHONPATH="${PYTHONPATH%"$MUSTER_STAGE_LIBRARY"}$MUSTER_STAGE/library" ;;
        esac
    fi
    if [ -n "${MUSTER_STAGE_BINDS:-}" ]; then
        muster_name=${MUSTER_STAGE_BINDS%% *}
        eval "export $muster_name=\"\${$muster_name:+\$$muster_name,}\${MUSTER_STAGE_BINDS#* }\""
    fi
    if [ -r "$MUSTER_STAGE/holder" ]; then
        read -r muster_holder muster_nsenter muster_user <"$MUSTER_STAGE/holder"
        # The command of torchrun begins with the number of words that start Python. The words of nsenter come before
        # them.
        muster_count=
        if [ -n "${muster_counted:-}" ]; then
            muster_count=$1
            shift
        fi
        muster_rest=$#
        # shellcheck disable=SC2016,SC2086  # the inner shell expands it; for root the word is empty
        set -- "$muster_nsenter" --target="$muster_holder" --mount $muster_user --preserve-credentials \
            /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
        [ -z "$muster_count" ] || set -- "$((muster_count + $# - muster_rest))" "$@"
    fi
fi

# Doubles each $ of $1: torchrun replaces $$ and ${local_rank} in every word. Result in $muster_word.
muster_doubled() {
    muster_word=
    muster_tail=$1
    while :; do
        case $muster_tail in
        *'$'*)
            muster_word=$muster_word${muster_tail%%'$'*}'$$'
            muster_tail=${muster_tail#*'$'}
            ;;
        *) break ;;
        esac
    done
    muster_word=$muster_word$muster_tail
}

muster_line_end='
'
# Builds the command of torchrun under its keeper. The first $1 words start Python, in the image if there is one.
muster_words=$1
shift
muster_rest=$(($# - muster_words))
while [ "$muster_words" -gt 0 ]; do
    set -- "$@" "$1"
    shift
    muster_words=$((muster_words - 1))
done
set -- "$@" "$MUSTER_NTASKS_PER_NODE" "${MUSTER_GRACE:-10}" -m "${MUSTER_AGENT_MODULE:-torch.distributed.run}" \
    --nnodes="$muster_nodes" --nproc-per-node="$MUSTER_NTASKS_PER_NODE" \
    --rdzv-backend=c10d --rdzv-endpoint="$muster_address:$muster_port" --rdzv-id="$muster_id" \
    --rdzv-conf="is_host=$muster_host" --local-addr="${SLURMD_NODENAME:-$muster_here}${MUSTER_HOST_SUFFIX:-}" \
    --max-restarts=0
[ -z "${MUSTER_AGENT_NEEDS:-}" ] || set -- "$@" "$MUSTER_AGENT_NEEDS"
muster_tail=${MUSTER_AGENT_FLAGS:-}
while [ -n "$muster_tail" ]; do
    set -- "$@" "${muster_tail%%"$muster_line_end"*}"
    muster_tail=${muster_tail#*"$muster_line_end"}
done
set -- "$@" --no-python
while [ "$muster_rest" -gt 0 ]; do
    muster_doubled "$1"
    set -- "$@" "$muster_word"
    shift
    muster_rest=$((muster_rest - 1))
done

exec "$@"
MUSTER_TEXT
)
muster_keeper=$(
    cat <<'MUSTER_TEXT'
import os
import select
import signal
import sys
import time
from typing import Dict, List, Optional, Sequence
FIRST_PIPE = 400
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 20
_LOOK_S = 0.1
_REPORT_S = 1.0
_TELL_S = 0.5
_MOST_CHUNKS = 64
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_TOLD = signal.SIGURG
class _Out:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.error: Optional[OSError] = None
    def write(self, data: bytes) -> None:
        while data and self.error is None:
            try:
                data = data[os.write(self.descriptor, data) :]
            except BlockingIOError:
                select.select([], [self.descriptor], [], 1.0)
            except OSError as error:
                self.error = error
class _Pipe:
    def __init__(self, output: _Out, keeper: "Keeper", *, hello: bool, label: bool, whole: bool) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._out, self._keeper = output, keeper
        self._hello, self._label, self._whole = hello, label, whole
        self._prefix = b""
        self._rest = b""
    def read(self) -> bool:
        try:
            chunk = os.read(self.reader, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        if chunk:
            self._feed(chunk)
        return bool(chunk)
    def empty(self) -> None:
        for _ in range(_MOST_CHUNKS):
            try:
                chunk = os.read(self.reader, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                return
            self._feed(chunk)
    def _feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        self._rest = b""
        if self._hello:
            first, end, data = data.partition(b"\n")
            if not end:
                self._rest = first
                return
            self._hello = False
            rank, pid = first.split()
            self._prefix = rank + b": " if self._label else b""
            self._keeper.note_rank(int(pid))
        if self._whole:
            data, end, self._rest = data.rpartition(b"\n")
            self._write(data + end)
            if len(self._rest) > _LONGEST_LINE_BYTES:
                self.close()
        elif data:
            self._out.write(data)
    def _write(self, lines: bytes) -> None:
        if lines and self._prefix:
            lines = self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n"
        self._out.write(lines)
    def close(self) -> None:
        if self._rest and not self._hello:
            self._write(self._rest + b"\n")
        self._rest = b""
class _AgentErrors(_Pipe):
    def _write(self, lines: bytes) -> None:
        if b" closing signal " in lines:
            self._keeper.note_closing()
        self._out.write(lines)
class Keeper:
    def __init__(self, words: Sequence[str], *, ranks: int, grace_s: float, label: bool) -> None:
        self._grace_s = grace_s
        self._ranks: Dict[int, str] = {}
        self._noted: List[int] = []
        self._ending_since: Optional[float] = None
        self._closing_since: Optional[float] = None
        self._tell_at: Optional[float] = None
        self._killed = False
        self._ends_once = _restarts(words) == 0
        self._outs = [_Out(1), _Out(2)]
        self._pipes: Dict[int, _Pipe] = {}
        self._poll = select.poll()
        self._wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (*_ENDINGS, _TOLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, lambda number, _: self._noted.append(number))
        self._poll.register(self._wake, select.POLLIN)
        for index in range(2 * ranks):
            pipe = _Pipe(self._outs[index % 2], self, hello=True, label=label, whole=label or ranks > 1)
            _move(pipe, FIRST_PIPE + index)
            self._add(pipe)
        self._agent = self._start(words)
    def _add(self, pipe: _Pipe) -> None:
        self._pipes[pipe.reader] = pipe
        self._poll.register(pipe.reader, select.POLLIN)
    def _start(self, words: Sequence[str]) -> int:
        own_pipes = [
            _Pipe(self._outs[0], self, hello=False, label=False, whole=True),
            _AgentErrors(self._outs[1], self, hello=False, label=False, whole=True),
        ]
        for pipe in own_pipes:
            self._add(pipe)
        environment = dict(os.environ, MUSTER_PIPES="/proc/%d/fd" % os.getpid())
        moves = [(os.POSIX_SPAWN_DUP2, pipe.writer, number) for number, pipe in enumerate(own_pipes, start=1)]
        return os.posix_spawn(
            words[0], list(words), environment, file_actions=moves, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )
    def note_rank(self, pid: int) -> None:
        self._ranks[pid] = _born(pid)
    def note_closing(self) -> None:
        if self._closing_since is None and self._ends_once:
            self._closing_since = time.monotonic()
            self._tell_at = self._closing_since + _TELL_S if self._ending_since is None else None
    def run(self) -> int:
        status = None
        while status is None:
            self._pass_on(_LOOK_S)
            status = self._ended()
            self._hear()
            self._end_in_time()
        if os.WIFSIGNALED(status):
            self._end_ranks()
        for pipe in self._pipes.values():
            os.close(pipe.writer)
        self._drain()
        return self._status(status)
    def _pass_on(self, patience_s: float) -> bool:
        ready = self._poll.poll(patience_s * 1000)
        for descriptor, _ in ready:
            if descriptor == self._wake:
                os.read(descriptor, 512)
            elif not self._pipes[descriptor].read():
                self._pipes[descriptor].close()
                self._poll.unregister(descriptor)
                os.close(descriptor)
                del self._pipes[descriptor]
        return bool(ready)
    def _ended(self) -> Optional[int]:
        pid, status = os.waitpid(self._agent, os.WNOHANG)
        return status if pid else None
    def _hear(self) -> None:
        while self._noted:
            number = self._noted.pop(0)
            if self._ending_since is not None or number not in (*_ENDINGS, _TOLD):
                continue
            self._tell_at = None
            if number == _TOLD:
                if self._closing_since is not None:
                    continue
                os.kill(self._agent, signal.SIGTERM)
            self._ending_since = time.monotonic()
    def _end_in_time(self) -> None:
        since = self._ending_since if self._closing_since is None else self._closing_since
        if since is None:
            return
        now = time.monotonic()
        if self._tell_at is not None and now >= self._tell_at:
            self._tell_at = None
            _tell_other_nodes()
        if now >= since + self._grace_s and not self._killed:
            self._killed = True
            self._signal_ranks(signal.SIGKILL)
        if now >= since + self._grace_s + _REPORT_S:
            os.kill(self._agent, signal.SIGKILL)
    def _signal_ranks(self, number: int) -> None:
        for pid, born in self._ranks.items():
            if born and _born(pid) == born:
                try:
                    os.killpg(pid, number)
                except OSError:  # it does not lead a group, or ended at this moment
                    pass
    def _end_ranks(self) -> None:
        self._signal_ranks(signal.SIGTERM)
        until = time.monotonic() + self._grace_s
        while time.monotonic() < until and any(born and _born(pid) == born for pid, born in self._ranks.items()):
            self._pass_on(_LOOK_S)
        self._signal_ranks(signal.SIGKILL)
    def _drain(self) -> None:
        for pipe in self._pipes.values():
            pipe.empty()
            pipe.close()
    def _status(self, status: int) -> int:
        for output in self._outs:
            if output.error is not None and not isinstance(output.error, BrokenPipeError):
                self._outs[1].write(
                    ("muster: warning: the output could not be written: %s\n" % output.error.strerror).encode()
                )
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
        return 128 + number
def _restarts(words: Sequence[str]) -> int:
    found = 0
    for word in words:
        name, _, value = word.partition("=")
        if name in ("--max-restarts", "--max_restarts") and value.isdigit():
            found = int(value)
    return found
def _move(pipe: _Pipe, number: int) -> None:
    os.dup2(pipe.writer, number, inheritable=False)
    os.close(pipe.writer)
    pipe.writer = number
def _born(pid: int) -> str:
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
def _tell_other_nodes() -> None:
    step = [os.environ.get(name) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    if None in step or os.environ.get("SLURM_STEP_NUM_NODES", "1") == "1":
        return
    words = ["scancel", "--quiet", "--signal=URG", "%s.%s" % tuple(step)]
    try:
        os.posix_spawnp(words[0], words, os.environ)
    except OSError:  # an image need not have it: each node then ends in its own time
        pass
def _log_directory() -> str:
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", "muster-agent-%d-%s" % (os.getpid(), os.urandom(4).hex()))
    os.mkdir(path, 0o700)
    return path
def _remove(path: str) -> None:
    import shutil  # not before the ranks have ended
    shutil.rmtree(path, ignore_errors=True)
def main(words: Sequence[str]) -> int:
    label, ranks, grace_s, module, agent, *rest = words
    logs = _log_directory()
    try:
        argv = [sys.executable, module, agent, "--log-dir=" + logs, *rest]
        return Keeper(argv, ranks=int(ranks), grace_s=float(grace_s), label=label == "label").run()
    finally:
        _remove(logs)
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
MUSTER_TEXT
)
muster_worker=$(
    cat <<'MUSTER_TEXT'
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

# Unsets the variables of MPI: they describe the agent. A rank of torchrun is not a rank of MPI, but a program that
# finds them takes them for its own.
while read -r muster_word muster_name; do
    case $muster_word in
    export) ;;
    declare) muster_name=${muster_name#-* } ;; # bash that is not in POSIX mode
    *) continue ;;
    esac
    muster_name=${muster_name%%=*}
    case $muster_name in
    *[!A-Za-z0-9_]*) ;;
    OMPI_COMM_WORLD_* | OMPI_UNIVERSE_SIZE | OMPI_MCA_orte_* | OMPI_MCA_ess* | OMPI_MCA_pmix* | PRTE_* | PMIX_* | PMI_* | PALS_* | MPI_LOCALRANKID | MPI_LOCALNRANKS)
        unset "$muster_name"
        ;;
    esac
done <<MUSTER_NAMES
$(export -p)
MUSTER_NAMES

# The agent's store uses the port of the meeting point. JAX takes the next port, or the port before at the end of the
# range.
muster_jax_port=$((MASTER_PORT + 1))
[ "$MASTER_PORT" -ne $((${MUSTER_PORT_LOW:-0} + ${MUSTER_PORT_COUNT:-65536} - 1)) ] || muster_jax_port=$((MASTER_PORT - 1))

# The address for jax.distributed.initialize(), with the port of the meeting point, or a port that the agent leaves free.
case $MASTER_ADDR in
*:*) muster_jax_host=[$MASTER_ADDR] ;;
*) muster_jax_host=$MASTER_ADDR ;;
esac
export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-$muster_jax_host:${muster_jax_port:-$MASTER_PORT}}"

# A rank of torchrun. The agent has set who this rank is; its threads and its standard input are set here.
if [ "${MUSTER_OMP:-}" = own ]; then
    muster_find_threads "$LOCAL_WORLD_SIZE" "${MUSTER_CPUS:-0}"
    export OMP_NUM_THREADS="$muster_threads"
fi
export NODE_RANK="$GROUP_RANK"
[ "$RANK" -eq 0 ] || exec </dev/null
# The output goes into the keeper's pipes, after a line that names the rank, unless the agent starts the rank once more.
# If the pipes cannot be opened, it goes to the agent's own streams.
muster_pipe=$((LOCAL_RANK * 2 + 400))
[ "${muster_restarted:=${TORCHELASTIC_RESTART_COUNT:-0}}" -eq 0 ] || [ -z "${MUSTER_PIPES:-}" ] || {
    exec >"$MUSTER_PIPES/$muster_pipe" 2>"$MUSTER_PIPES/$((muster_pipe + 1))"
    unset MUSTER_PIPES
}
if [ -n "${MUSTER_PIPES:-}" ] && { printf '%s %s\n' "$RANK" "$$" >"$MUSTER_PIPES/$muster_pipe" && : >"$MUSTER_PIPES/$((muster_pipe + 1))"; } 2>/dev/null; then
    exec >"$MUSTER_PIPES/$muster_pipe" 2>"$MUSTER_PIPES/$((muster_pipe + 1))"
    printf '%s %s\n' "$RANK" "$$" >&2
fi
unset MUSTER_PIPES
exec "$@"
MUSTER_TEXT
)

# What runs on every node beside the ranks, for as long as they do: POSIX sh, no Python.
muster_stage_node=$(
    cat <<'MUSTER_TEXT'
# The helper of one node, which runs as long as the ranks of the job. It receives the copies, mounts them over the
# shared files, and brings back what the ranks wrote. $1: the node's folder, $2: the job, $3: the number of nodes, $4:
# this node's number, $5: where to bring what the ranks wrote (or -). It reads one order per line, and answers in lines
# that begin with muster-stage. A copy gets its name only when it is complete.
umask 077
# The node's own programs come first: otherwise the shell would search a shared environment for each of them.
PATH=/usr/bin:/bin:$PATH
read -r muster_host </proc/sys/kernel/hostname
muster_host=${SLURMD_NODENAME:-$muster_host}
muster_top=$1
muster_id=$2
muster_nodes=$3
muster_node=$4
muster_out=$5
muster_job=$muster_top/job-$muster_id
muster_tab=$(printf '\t')
muster_sender=
muster_holder=
muster_next=0

# Answers in one write, since several processes write lines.
muster_tell() {
    printf 'muster-stage\t%s\t%s\t%s\n' "$muster_host" "$1" "${2:--}"
}

# Removes the trees $@, which may hold directories that their owner may not change.
muster_remove() {
    chmod -R u+w "$@" 2>/dev/null
    rm -rf "$@"
}

# Answers whether this node has the copy. $1: its number, $2: its key, $3: tree.zst, tree or file, $4: the number of
# chunks, $5: the digest of their list, $6: the folder of the chunks, $7: the path of a single file.
muster_look() {
    muster_number=$1
    muster_key=$2
    muster_kind=$3
    muster_count=$4
    muster_digest=$5
    muster_from=$6
    muster_file=$7
    muster_place=$muster_top/$muster_key-${muster_digest%"${muster_digest#????????}"}
    muster_in=$muster_job/in-$1
    muster_trouble=
    muster_next=0
    if [ -e "$muster_place/.muster-$muster_digest" ]; then
        touch "$muster_place" # a copy that was used today is not removed
        muster_tell "$1" have
    elif [ "$muster_kind" = tree.zst ] && ! command -v zstd >/dev/null; then
        muster_tell "$1" no-zstd
    elif mkdir -p "$muster_in" 2>/dev/null; then
        muster_tell "$1" need
    else
        muster_tell "$1" full
    fi
}

# Fetches the copy: every node sends its share of the chunks to all nodes, so that no single link carries everything.
muster_fetch() {
    mkdir -p "$muster_in" && cp "$muster_from/chunks" "$muster_in/chunks" 2>/dev/null || muster_trouble=full
    [ "$(sha256sum <"$muster_in/chunks" 2>/dev/null)" = "$muster_digest  -" ] || muster_trouble=${muster_trouble:-damaged}
    muster_draft=
    if [ ! -e "$muster_place/.muster-$muster_digest" ] && [ -z "$muster_trouble" ]; then
        muster_draft=$muster_place.part-$muster_id
        muster_begin_unpacking || muster_trouble=full
    fi
    muster_send &
    muster_sender=$!
}

# Makes the draft of the copy, and starts the program that fills it from the chunks.
muster_begin_unpacking() {
    mkdir -p "$muster_draft" || return 1
    if [ "$muster_kind" = file ]; then
        mkdir -p "$muster_draft${muster_file%/*}" && : >"$muster_draft$muster_file"
        return
    fi
    mkfifo "$muster_in/pipe" || return 1
    if [ "$muster_kind" = tree.zst ]; then
        zstd -dcq <"$muster_in/pipe" | tar -xof - -C "$muster_draft" 2>"$muster_in/said" &
    else
        tar -xof - -C "$muster_draft" <"$muster_in/pipe" 2>"$muster_in/said" &
    fi
    muster_unpacker=$!
    exec 4>"$muster_in/pipe"
}

# Sends the chunks of this node to all nodes.
muster_send() {
    exec 4>&-
    muster_chunk=$muster_node
    while [ "$muster_chunk" -lt "$muster_count" ]; do
        muster_name=$(printf '%06d' "$muster_chunk")
        if muster_said=$(sbcast --force --size=8000000 "$muster_from/$muster_name" "$muster_in/$muster_name" 2>&1 </dev/null); then
            muster_tell "$muster_number" "sent $muster_chunk"
        else
            muster_said=$(printf '%s' "$muster_said" | sed -n 's/.*REQUEST_FILE_BCAST(\([^)]*\)).*/\1/p' | head -n 1)
            muster_tell "$muster_number" "unsent ${muster_said:-$muster_host}"
            return
        fi
        muster_chunk=$((muster_chunk + muster_nodes))
    done
}

# Takes the chunk $1, which is now on every node. The chunks are verified and unpacked in their order.
muster_take() {
    : >"$muster_in/$(printf '%06d' "$1").here"
    while [ "$muster_next" -lt "$muster_count" ]; do
        muster_name=$(printf '%06d' "$muster_next")
        [ -e "$muster_in/$muster_name.here" ] || return 0
        muster_next=$((muster_next + 1))
        if [ -n "$muster_draft" ] && [ -z "$muster_trouble" ]; then
            muster_line=$(sed -n "${muster_next}p" "$muster_in/chunks")
            if [ "$(sha256sum <"$muster_in/$muster_name")" != "${muster_line%% *}  -" ]; then
                muster_trouble=damaged
            elif [ "$muster_kind" = file ]; then
                cat "$muster_in/$muster_name" >>"$muster_draft$muster_file" || muster_trouble=full
            else
                cat "$muster_in/$muster_name" >&4 || muster_trouble=full
            fi
        fi
        rm -f "$muster_in/$muster_name" "$muster_in/$muster_name.here"
    done
    muster_finish
}

# Gives the copy its name after the last chunk, or removes it.
muster_finish() {
    if [ -n "$muster_draft" ]; then
        if [ "$muster_kind" != file ] && [ -p "$muster_in/pipe" ]; then
            exec 4>&-
            wait "$muster_unpacker" || muster_trouble=${muster_trouble:-full}
        fi
        if [ -z "$muster_trouble" ] && : >"$muster_draft/.muster-$muster_digest"; then
            # If another job was faster, its copy stays.
            mv -T "$muster_draft" "$muster_place" 2>/dev/null || [ -e "$muster_place/.muster-$muster_digest" ] ||
                muster_trouble=full
        fi
        [ ! -e "$muster_draft" ] || muster_remove "$muster_draft"
        muster_draft=
    fi
    muster_remove "$muster_in"
    muster_tell "$muster_number" "${muster_trouble:-have}"
}

# Removes a copy that will not be used.
muster_drop() {
    [ -z "$muster_sender" ] || kill "$muster_sender" 2>/dev/null
    exec 4>&-
    [ -z "${muster_draft:-}" ] || muster_remove "$muster_draft"
    muster_draft=
    muster_remove "$muster_in"
}

# Corrects the paths in the copy $1 of the virtual environment $2, so that Python searches no shared folder.
muster_settle() {
    muster_configuration=$1$2/pyvenv.cfg
    [ -e "$muster_configuration" ] || return 0
    muster_python=$(readlink -f "$1$2/bin/python")
    case $muster_python in
    "$1"/*) return 0 ;;
    esac
    [ -e "$1$muster_python" ] || return 0 # the node's own Python, which is not in the copy
    for muster_path in "$1$2"/bin/python*; do
        case $(readlink "$muster_path") in
        /*) ln -s "$1$muster_python" "$muster_path.$muster_id" && mv -T "$muster_path.$muster_id" "$muster_path" ;;
        esac
    done
    sed "s|^home *=.*|home = $1${muster_python%/*}|" "$muster_configuration" >"$muster_configuration.$muster_id" &&
        mv "$muster_configuration.$muster_id" "$muster_configuration"
}

# Links the rank library $1 into a folder of this node: Python searches the folder for every import.
muster_library() {
    mkdir -p "$muster_job/library" && ln -s "$1/muster" "$muster_job/library/muster"
}

# Makes the folder from which the script $1 is started: Python files are copies, everything else is a link to the shared
# original. What the script writes into the folders beside it therefore reaches the shared ones.
muster_script() {
    muster_beside=$muster_job/script
    mkdir -p "$muster_beside" || return 1
    find "${1%/*}" -mindepth 1 -maxdepth 1 -exec ln -s -t "$muster_beside" {} + &&
        find "${1%/*}" -maxdepth 1 -type f -name '*.py' -exec cp -p --remove-destination -t "$muster_beside" {} + || return 1
    cp -p --remove-destination "$1" "$muster_beside/" || return 1
    : >"$muster_job/script-is-made"
}

# Starts a process that holds the mounts. All ranks of this node enter its namespaces, so that they still share memory
# and GPU handles. Users other than root mount in a user namespace; a second one in it gives them their own id again.
muster_hold() {
    rm -f "$muster_job/holder"
    # shellcheck disable=SC2016  # the inner shell expands it
    muster_text='
        while IFS=$(printf "\t") read -r local shared; do
            [ -e "$shared" ] || mkdir -p "$shared"
            mount --rbind "$local" "$shared" || exit 1
        done <"$1/binds"
        nsenter=$(command -v nsenter) || exit 1
        if [ "$2" = 0 ]; then
            echo "$$ $nsenter " >"$1/holder.new" && mv "$1/holder.new" "$1/holder" && exec sleep 2000000000
            exit 1
        fi
        unshare --user --mount sleep 2000000000 &
        inner=$!
        trap "kill $inner" EXIT TERM
        mine=$(readlink /proc/self/ns/user)
        tries=0
        while [ "$(readlink "/proc/$inner/ns/user")" = "$mine" ] && [ "$tries" -lt 200 ]; do
            sleep 0.02
            tries=$((tries + 1))
        done
        echo "$2 0 1" >"/proc/$inner/uid_map" && echo "$3 0 1" >"/proc/$inner/gid_map" || exit 1
        echo "$inner $nsenter --user" >"$1/holder.new" && mv "$1/holder.new" "$1/holder" || exit 1
        wait "$inner"'
    set -- "$(id -u)" "$(id -g)"
    if [ "$1" = 0 ]; then
        unshare --mount sh -c "$muster_text" muster "$muster_job" 0 0 >"$muster_job/said" 2>&1 </dev/null &
    else
        unshare --user --map-root-user --mount sh -c "$muster_text" muster "$muster_job" "$1" "$2" \
            >"$muster_job/said" 2>&1 </dev/null &
    fi
    muster_holder=$!
    muster_tries=0
    while [ ! -e "$muster_job/holder" ] && kill -0 "$muster_holder" 2>/dev/null && [ "$muster_tries" -lt 500 ]; do
        sleep 0.02
        muster_tries=$((muster_tries + 1))
    done
    muster_inside=
    [ ! -e "$muster_job/holder" ] || read -r muster_inside muster_nsenter muster_user <"$muster_job/holder"
    # The namespace counts only if a program can enter it.
    if [ -n "$muster_inside" ] && muster_enters; then
        muster_tell mount mounted
    else
        muster_let_go
        read -r muster_said <"$muster_job/said" || muster_said='no mount in a user namespace'
        muster_tell mount "closed ${muster_said#*: }"
    fi
}

# Succeeds if a program can enter the namespaces of the holder.
muster_enters() {
    # shellcheck disable=SC2086  # for root the word is empty
    "$muster_nsenter" --target="$muster_inside" --mount $muster_user --preserve-credentials true 2>>"$muster_job/said"
}

# Ends the process that holds the mounts.
muster_let_go() {
    rm -f "$muster_job/holder"
    [ -z "$muster_holder" ] || kill "$muster_holder" 2>/dev/null
    muster_holder=
}

# Brings what the ranks wrote in $2 to $1 on the shared file system: first as complete copies under other names, which
# are then renamed. If two nodes wrote files with one name, both are kept.
muster_bring() {
    muster_claims=$1/.muster-$muster_id
    muster_part=$muster_claims/$muster_host.part
    if [ -z "$(find "$2" -mindepth 1 -print 2>/dev/null | head -n 1)" ]; then
        mkdir -p "$muster_claims/ended/$muster_host" 2>/dev/null
        muster_brought=0
    elif mkdir -p "$muster_part" "$muster_claims/ended" && cp -a "$2/." "$muster_part/"; then
        muster_brought=$(find "$muster_part" ! -type d -exec printf '.%.0s' {} + | wc -c)
        (
            cd "$muster_part" || exit 1
            find . -type d -exec sh -c 'top=$1 && shift && for each; do mkdir -p "$top/$each"; done' sh "$1" {} +
            find . ! -type d -exec sh -c '
                top=$1 claims=$2 host=$3
                shift 3
                for each; do
                    mkdir -p "$claims/names/${each%/*}"
                    name=$each
                    if ! (set -C && echo "$host" >"$claims/names/$each") 2>/dev/null; then
                        read -r owner <"$claims/names/$each"
                        [ "$owner" = "$host" ] || name=$each.$host
                    fi
                    mv -f "$each" "$top/$name" || exit 1
                done' sh "$1" "$muster_claims" "$muster_host" {} +
        ) || return 1
        rm -rf "$muster_part"
        mkdir -p "$muster_claims/ended/$muster_host"
    else
        return 1
    fi
    # The last node removes the temporary folder.
    set -- "$muster_claims"/ended/*
    [ $# -lt "$muster_nodes" ] || rm -rf "$muster_claims"
}

# Brings what the ranks wrote, and reports how many files.
muster_bring_all() {
    [ "$muster_out" != - ] && [ -d "$muster_job/out" ] || return 0
    if muster_bring "$muster_out" "$muster_job/out"; then
        muster_remove "$muster_job/out"
        muster_tell out "brought $muster_brought"
    else
        muster_tell out "kept $muster_job/out"
        muster_keep=1
    fi
}

# Brings what the script wrote into its own folder, to a folder beside the run.
muster_beside_script() {
    [ -d "$muster_job/script" ] || return 0
    muster_new=$(find "$muster_job/script" -mindepth 1 -maxdepth 1 ! -type l ! -name '*.py' ! -name __pycache__ \
        -newer "$muster_job/script-is-made" | head -n 1)
    [ -n "$muster_new" ] || return 0
    mkdir -p "$1/beside-script/$muster_host" &&
        find "$muster_job/script" -mindepth 1 -maxdepth 1 ! -type l ! -name '*.py' ! -name __pycache__ \
            -newer "$muster_job/script-is-made" -exec cp -a {} "$1/beside-script/$muster_host/" \; &&
        muster_tell script "$1/beside-script/$muster_host"
}

# Removes everything of this job from the node.
muster_clean_up() {
    [ -z "${muster_draft:-}" ] || muster_drop
    muster_let_go
    [ -z "${muster_keep:-}" ] || return 0
    muster_remove "$muster_job"
    # A chunk may have been on its way.
    [ ! -e "$muster_job" ] || { sleep 1 && muster_remove "$muster_job"; }
}

# Handles SIGTERM: Slurm ends the job and signals its ranks at the same moment. They may write until they have ended;
# then their files are brought, in what is left of the cluster's KillWait. If the ranks go on, the helper waits for
# them.
muster_on_signal() {
    trap '' TERM
    muster_tries=0
    while [ "$muster_tries" -lt 50 ] && muster_ranks_run; do
        sleep 0.2
        muster_tries=$((muster_tries + 1))
    done
    if muster_ranks_run; then
        [ "$muster_out" = - ] || muster_bring "$muster_out" "$muster_job/out"
        while muster_ranks_run; do sleep 0.5; done
    fi
    muster_bring_all
    muster_clean_up
    exit 143
}

# Succeeds if a rank of this node still runs.
muster_ranks_run() {
    for muster_path in "$muster_job"/ranks/*; do
        kill -0 "${muster_path##*/}" 2>/dev/null && return 0
    done
    return 1
}

# Removes what killed helpers left, except files of ranks that were not brought yet. Removes copies that no job has used
# for two weeks, unless another job is on this node: it may have been reading its copy for longer.
muster_sweep() {
    muster_alone=1
    for muster_path in "$muster_top"/job-*; do
        [ "$muster_path" != "$muster_job" ] && [ -r "$muster_path/helper" ] || continue
        read -r muster_pid <"$muster_path/helper"
        if kill -0 "$muster_pid" 2>/dev/null; then
            muster_alone=
        elif [ -z "$(find "$muster_path/out" ! -type d 2>/dev/null | head -n 1)" ]; then
            muster_remove "$muster_path"
        fi
    done
    [ -z "$muster_alone" ] ||
        find "$muster_top" -mindepth 1 -maxdepth 1 ! -name 'job-*' -mmin +20160 -exec rm -rf {} + 2>/dev/null
}

trap muster_on_signal TERM
# A folder that another user made is not trusted.
mkdir -p "${muster_top%/*}" && mkdir "$muster_top" 2>/dev/null
if [ -e "$muster_top" ] && { [ ! -O "$muster_top" ] || [ -L "$muster_top" ]; }; then
    muster_tell start foreign
elif mkdir -p "$muster_job/ranks" "$muster_job/out" 2>/dev/null; then
    echo "$$" >"$muster_job/helper"
    muster_sweep
    muster_tell start ready
else
    muster_tell start full
fi
while IFS=$muster_tab read -r muster_word muster_a muster_b muster_c muster_d muster_e muster_f muster_g; do
    case $muster_word in
    look) muster_look "$muster_a" "$muster_b" "$muster_c" "$muster_d" "$muster_e" "$muster_f" "$muster_g" ;;
    fetch) muster_fetch ;;
    chunk) muster_take "$muster_a" ;;
    drop) muster_drop ;;
    script)
        muster_made=full
        muster_script "$muster_a" && muster_made=made
        muster_tell script "$muster_made"
        ;;
    settle) muster_settle "$muster_a" "$muster_b" ;;
    library) muster_library "$muster_a" ;;
    bind) printf '%s\t%s\n' "$muster_a" "$muster_b" >>"$muster_job/binds" ;;
    hold) muster_hold ;;
    let-go) muster_let_go ;;
    end)
        muster_beside_script "$muster_a"
        muster_bring_all
        break
        ;;
    esac
done
muster_clean_up
muster_tell end ended
MUSTER_TEXT
)

job
