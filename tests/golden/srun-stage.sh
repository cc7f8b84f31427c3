#!/bin/bash
# Written by muster 0.1.0 for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 --venv /home/ada/env --stage-env --stage '/scratch/it'"'"'s data' --stage-out out -- python
#     train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 0
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000
    # Copies on the nodes' own disks. If a thing cannot be staged, a warning names it; the shared one is used.
    muster_stage_begin /tmp /home/ada/project/out
    muster_stage_thing 1 'the environment /home/ada/env' /home/ada/project/muster-runs/stage/env-8a10ebf8 \
        /home/ada/env /apps/python/bin/python3.11 /apps/python/lib -- /home/ada/env \
        /home/ada/env/lib/python3.11/site-packages && {
        muster_stage_except /apps/python/lib/python3.11/site-packages
        muster_stage_environment /home/ada/env /apps/python/bin/python3.11 /apps/python/lib
    }
    muster_stage_thing 2 '/scratch/it'"'"'s data' '/home/ada/project/muster-runs/stage/it'"'"'s data-fc46bfb9' \
        '/pfs/it'"'"'s data' -- '/pfs/it'"'"'s data' && {
        muster_stage_over '/pfs/it'"'"'s data'
    }
    muster_stage_script train.py /home/ada/project/train.py
    muster_stage_library /home/ada/.local/share/muster/rank-library/0
    muster_stage_mount || muster_stage_closed -
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none --label \
        "${muster_output_flags[@]}" --input=0 \
        sh -c "$muster_task" muster python train.py
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

# Decides where the ranks' errors go. A socket, or a pipe of another user, cannot be opened by its name. Then srun's
# messages and the ranks' errors share one stream.
muster_open_errors() {
    muster_error=(--error=/dev/fd/9 --open-mode=append)
    { : >>/dev/fd/9; } 9>&2 2>/dev/null || muster_error=()
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

# Compares the start with the plan: a rank that runs alone is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" 'the command may start another launcher: remove it from the command'

# Each rank picks its own GPU by its local rank, so each rank has to see the GPUs of all ranks of its node.
muster_visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}}
# shellcheck disable=SC2086  # split at its commas
muster_count=$(IFS=, && set -f && set -- $muster_visible && echo $#)
[ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] || muster_stop \
    "rank $muster_rank sees only the devices '$muster_visible', but its node has $muster_local_size ranks" \
    'ask for GPUs per node, not per task: remove --gpus-per-task, --gpu-bind and the variables that hide GPUs'

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

# The address for jax.distributed.initialize(), with the port of the meeting point, or a port that the agent leaves free.
case $MASTER_ADDR in
*:*) muster_jax_host=[$MASTER_ADDR] ;;
*) muster_jax_host=$MASTER_ADDR ;;
esac
export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-$muster_jax_host:${muster_jax_port:-$MASTER_PORT}}"

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

# Runs the user's command, unchanged. Only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
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
