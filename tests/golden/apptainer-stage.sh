#!/bin/bash
# Written by muster 0.1.0 for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 --image /images/x.sif --stage-env --stage '/scratch/it'"'"'s data' -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # words of the user's reach the ranks as they are

job() {
    muster_begin /home/ada/project 1 0
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORTS=20000-31999
    # Copies on the nodes' own disks; what cannot be staged is said, and the shared one is used.
    muster_stage_begin /tmp -
    muster_stage_thing 1 'the image /images/x.sif' /home/ada/project/muster-runs/stage/x.sif-cf81b4c4 /images/x.sif -- /images/x.sif && {
        muster_stage_image /images/x.sif /images/x.sif
    }
    muster_stage_thing 2 '/scratch/it'"'"'s data' '/home/ada/project/muster-runs/stage/it'"'"'s data-fc46bfb9' '/pfs/it'"'"'s data' -- '/pfs/it'"'"'s data' && {
        muster_stage_over '/pfs/it'"'"'s data'
    }
    muster_stage_script train.py /home/ada/project/train.py
    muster_stage_bind APPTAINER_BIND
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none --output="$muster_logs"/%N.log --input=all \
        sh -c "$muster_task" muster 18 apptainer --quiet exec --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/x.sif python -I -S -c \
        "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status "${muster_logs:-$muster_run_dir/logs}"/*.log
    muster_stage_end
    muster_remove_unpacked
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

# torchrun ends with 1 whatever its ranks said; its report names the first failure of each node. The earliest
# one that was not an ending by torchrun itself (SIGTERM) is the job's. Result in $muster_status.
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

# Staging: copies on the nodes' own disks, the same on all of them or on none. What cannot be staged is said, and the
# shared one is used: the job goes on.
muster_stage_warn() { printf 'muster: warning: %s\n' "$*" >&2; }

# Starts the helper of every node of the job. $1: the folder of the nodes, $2: where what ranks write is brought, or -.
muster_stage_begin() {
    muster_stage_top=$1/muster-stage-$UID
    muster_stage_out=$2
    [ "$2" = - ] || mkdir -p "$2" || muster_stop "the directory $2, where what is written is to be brought, cannot be made" \
        'give another with --stage-out'
    muster_stage_nodes=$SLURM_JOB_NUM_NODES
    muster_stage_mounts=()
    muster_stage_trouble=
    muster_stage_alive=1
    # Helpers that have ended are found out by what they do not say.
    trap '' PIPE
    # Beside the ranks, and beyond Ctrl-C: what they wrote is still to be brought.
    coproc muster_stage_step {
        trap '' INT
        # shellcheck disable=SC2016,SC2154  # the nodes fill it in; the text stands above
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

# Nothing is staged, because of $1: said once.
muster_stage_lose() {
    [ "$muster_stage_alive" -eq 0 ] || muster_stage_warn "nothing is staged: $1; all ranks use the shared files"
    muster_stage_alive=0
    unset MUSTER_STAGE
    trap - PIPE
    kill "$muster_stage_pid" 2>/dev/null
}

# An answer about $1 from every node; true where all of them say $2. Chunks that one node has sent are announced to all.
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
            muster_stage_trouble="${answer#unsent } does not take the copy: its disk may be full"
            return 1
            ;;
        *)
            count=$((count + 1))
            muster_stage_answers+=("$answer")
            case $answer in
            "$2" | need) ;;
            full) muster_stage_trouble="$host has no room for it in $muster_stage_top" ;;
            foreign) muster_stage_trouble="$muster_stage_top of $host belongs to somebody else" ;;
            damaged) muster_stage_trouble="$host got a copy that is not what was packed" ;;
            no-zstd) muster_stage_trouble="$host has no zstd to unpack it with" ;;
            closed*) muster_stage_trouble="$host lets nobody mount (${answer#closed })" ;;
            *) muster_stage_trouble="$host says: $answer" ;;
            esac
            ;;
        esac
    done
    [ -z "$muster_stage_trouble" ]
}

# $1: its number, $2: what it is in words, $3: the folder in which it was packed; then the paths that are in it, and
# after -- those whose change shows that it is packed no more as it is. Where the copy lies: $muster_stage_place.
# shellcheck disable=SC2317  # not every job has a use for it
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
        muster_stage_trouble='it is not packed yet, which muster submit and muster run do'
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

# Every path lies under $muster_stage_place, and is seen at its own name.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_over() {
    local path
    for path in "$@"; do
        muster_stage_mounts+=("$muster_stage_place$path"$'\t'"$path")
    done
}

# The folder of the script $1, without what lies in it: Python looks there for everything that it imports.
# shellcheck disable=SC2317  # not every job has a use for it
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

# The environment, its Python and what else is packed with it.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_environment() {
    muster_stage_environment_at=$muster_stage_place
    printf 'settle\t%s\t%s\n' "$muster_stage_place" "$1" >&"$muster_stage_to"
    muster_stage_over "$@"
    # Under this name it is started: the folders above it are then the node's own, too.
    export MUSTER_STAGE_ENV=$1 MUSTER_STAGE_ENV_HERE=$muster_stage_place$1
}

# The path $1 was left out of its archive: it stays the shared one.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_except() {
    muster_stage_mounts+=("$1"$'\t'"$muster_stage_place$1")
}

# The word $1 of the command is the image $2: its own copy is started.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_image() {
    export MUSTER_STAGE_IMAGE=$1 MUSTER_STAGE_IMAGE_HERE=$muster_stage_place$2
}

# What the ranks find, and what they write.
muster_stage_ready() {
    [ "$muster_stage_alive" -eq 1 ] || return 1
    export MUSTER_STAGE=$muster_stage_top/job-$SLURM_JOB_ID
    [ "$muster_stage_out" = - ] || muster_stage_mounts+=("$MUSTER_STAGE/out"$'\t'"$muster_stage_out")
}

# The folder $1 of the rank library.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_library() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    printf 'library\t%s\n' "$1" >&"$muster_stage_to"
    export MUSTER_STAGE_LIBRARY=$1
}

# The copies take the places of the shared ones, in a view of the files that the ranks of each node enter.
# shellcheck disable=SC2317  # not every job has a use for it
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

# Nobody may mount. An environment that works under another name ($1; else -) is used under that of its copy.
# shellcheck disable=SC2317  # not every job has a use for it
muster_stage_closed() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    if [ "$1" != - ] && [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn "$muster_stage_trouble: the environment is used as $MUSTER_STAGE_ENV_HERE, all else where it is shared"
    elif [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn "$muster_stage_trouble, and the environment holds its own path (it is not relocatable): all ranks use the shared files"
        unset MUSTER_STAGE_ENV
    else
        muster_stage_warn "$muster_stage_trouble: all ranks use the shared files"
    fi
    muster_stage_out=-
}

# The image sees the copies under the names of the shared ones, by its engine's variable $1.
# shellcheck disable=SC2317  # not every job has a use for it
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

# The ranks have ended: what they wrote is brought home, and the helpers end.
muster_stage_end() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    local word host about answer seen=0
    trap '' PIPE
    # shellcheck disable=SC2154  # of the script around
    printf 'end\t%s\n' "$muster_run_dir" >&"$muster_stage_to"
    while IFS=$'\t' read -r -t 900 -u "$muster_stage_from" word host about answer; do
        [ "$word" = muster-stage ] || continue
        case $about:$answer in
        out:brought*)
            seen=$((seen + 1))
            [ "${answer#brought }" -eq 0 ] || printf 'muster: %s: %s files to %s\n' "$host" "${answer#brought }" "$muster_stage_out" >&2
            ;;
        out:kept*) muster_stage_warn "what the ranks wrote on $host could not be brought to $muster_stage_out: it stays there in ${answer#kept }" ;;
        script:*) muster_stage_warn "the script wrote beside itself on $host: that is now in $answer" ;;
        end:*) ;;
        esac
    done
    [ "$muster_stage_out" = - ] || [ "$seen" -eq "$muster_stage_nodes" ] ||
        muster_stage_warn "$seen of $muster_stage_nodes nodes said that what was written is in $muster_stage_out; else it is there in $muster_stage_top"
}

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

# One torchrun agent on each node. Whether it hosts the meeting point is said, so no name has to be recognised.
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
read -r muster_here </proc/sys/kernel/hostname
muster_host=0
[ "$muster_node_rank" -ne 0 ] || muster_host=1
[ "$muster_host" -eq 0 ] || ! muster_port_is_taken "$muster_port" || muster_stop \
    "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
# A variable, not an option: a torch that is too old to know it passes over it.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${MUSTER_GRACE:-10}"
# torchrun would set 1 when the variable is missing; each rank finds its own share.
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS=1 MUSTER_OMP=own
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="\${rank}: "

# The first word is a number.
muster_counted=1

# The program $1 and the image $2 are here.
muster_image_needs() {
    read -r muster_here </proc/sys/kernel/hostname
    command -v "$1" >/dev/null || muster_stop "the node $muster_here has no $1" \
        'load the module that has it with --module, or name another engine with --engine'
    case $2 in
    /*) [ -e "$2" ] || muster_stop "the node $muster_here does not see the image $2" \
        'put it on a file system that the compute nodes see' ;;
    esac
}

# Every path that is to be bound is here.
muster_image_sees() {
    for muster_path in "$@"; do
        [ -e "$muster_path" ] || muster_stop "the node $muster_here has no $muster_path, which the image is to see" \
            'give another path with --bind, or correct the site profile'
    done
}

# The image: what it needs is on this node, and what this rank has learnt reaches it, also where a site's settings
# clean the environment. Apptainer reads variables whose names begin with $prefix; it runs their values through a
# shell, so what a shell would expand is escaped.

# $2 with a backslash before each of the characters $1 (a pattern's bracket). Result in $muster_escaped.
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

# Where ranks are started inside, by torchrun, the image has to have sh. An image that has to be unpacked is not asked.
muster_image_has_sh() {
    eval "[ -z \"\${$3_UNSQUASH:-}\" ]" || return 0
    "$1" --quiet exec "$2" sh -c : </dev/null >/dev/null 2>&1 || muster_stop \
        "the image $2 does not start sh on $muster_here, which torchrun's ranks need" \
        "try $1 exec $2 sh; --launcher srun needs no sh in the image"
}

# The host's libraries after $3 are bound into the image $2, whose C library must not be older than what they were
# linked with. Asked once a node; an image that has to be unpacked, or that has no getconf, is not asked.
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
            "the image $muster_of has glibc 2.$muster_has, and the host's $muster_path, which is bound into it, needs 2.$muster_wants" \
            'build the image on a newer base: the fabric of this site is reached through that library'
    done
}

# The run directory and the job's own temporary directory, where they lie under none of the paths after $1.
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

# The variables after $1 that are set.
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

# What the MPI outside tells its ranks, for the MPI inside: without it each would be a world of its own.
muster_image_joins() {
    for muster_name in $(env | sed -n 's/^\(OMPI_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PMIX\{0,1\}2\{0,1\}_[A-Za-z0-9_]*\)=.*/\1/p'); do
        muster_image_gets "$1" "$muster_name"
    done
}

# The folder $2 last on PYTHONPATH, told in the variable $1: behind the user's, else behind what the image has.
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

# The staged copies in the place of the shared ones: the words of the command that name what lies elsewhere now, then
# the view that the helper of this node holds.
if [ -n "${MUSTER_STAGE:-}" ]; then
    if [ -d "$MUSTER_STAGE/ranks" ]; then
        : >"$MUSTER_STAGE/ranks/$$"
    else
        read -r muster_here </proc/sys/kernel/hostname
        printf 'muster: warning: nothing is staged on %s: its ranks use the shared files\n' "$muster_here" >&2
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
        # torchrun's prologue begins with the number of words that start Python: these stand before them.
        muster_count=
        if [ -n "${muster_counted:-}" ]; then
            muster_count=$1
            shift
        fi
        muster_rest=$#
        # shellcheck disable=SC2016,SC2086  # the inner shell fills it in; root needs no user namespace and no word for it
        set -- "$muster_nsenter" --target="$muster_holder" --mount $muster_user --preserve-credentials \
            /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
        [ -z "$muster_count" ] || set -- "$((muster_count + $# - muster_rest))" "$@"
    fi
fi

# $1 with each $ doubled: torchrun reads $$ and ${local_rank} in every word as its own. Result in $muster_word.
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

# torchrun itself, under its keeper. The first $1 words start that in Python, in its image if there is one.
muster_words=$1
shift
muster_rest=$(($# - muster_words))
while [ "$muster_words" -gt 0 ]; do
    set -- "$@" "$1"
    shift
    muster_words=$((muster_words - 1))
done
set -- "$@" "$MUSTER_NTASKS_PER_NODE" "${MUSTER_GRACE:-10}" -m torch.distributed.run \
    --nnodes="$muster_nodes" --nproc-per-node="$MUSTER_NTASKS_PER_NODE" \
    --rdzv-backend=c10d --rdzv-endpoint="$muster_address:$muster_port" --rdzv-id="$muster_id" \
    --rdzv-conf="is_host=$muster_host" --local-addr="${SLURMD_NODENAME:-$muster_here}${MUSTER_HOST_SUFFIX:-}" \
    --max-restarts=0 --no-python
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
__all__ = ["FIRST_PIPE", "Keeper", "main"]
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
    def __init__(self, out: _Out, keeper: "Keeper", *, hello: bool, label: bool, whole: bool) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._out, self._keeper = out, keeper
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
        own = [
            _Pipe(self._outs[0], self, hello=False, label=False, whole=True),
            _AgentErrors(self._outs[1], self, hello=False, label=False, whole=True),
        ]
        for pipe in own:
            self._add(pipe)
        environment = dict(os.environ, MUSTER_PIPES="/proc/%d/fd" % os.getpid())
        moves = [(os.POSIX_SPAWN_DUP2, pipe.writer, number) for number, pipe in enumerate(own, start=1)]
        return os.posix_spawn(
            words[0], list(words), environment, file_actions=moves, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )
    def note_rank(self, pid: int) -> None:
        self._ranks[pid] = _born(pid)
    def note_closing(self) -> None:
        if self._closing_since is None:
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
        for out in self._outs:
            if out.error is not None and not isinstance(out.error, BrokenPipeError):
                self._outs[1].write(("muster: error: the output cannot be written: %s\n" % out.error.strerror).encode())
                return os.WEXITSTATUS(status) or 2
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
        return 128 + number
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
        started = [sys.executable, module, agent, "--log-dir=" + logs, *rest]
        return Keeper(started, ranks=int(ranks), grace_s=float(grace_s), label=label == "label").run()
    finally:
        _remove(logs)
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
MUSTER_TEXT
)
muster_worker=$(
    cat <<'MUSTER_TEXT'
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

# Programs that read other names than torch's (JAX, ignite, mmengine) must find this rank there, and neither the agent
# nor the daemon that started it.
if [ -n "${SLURM_JOB_ID:-}${MUSTER_SLURM_NAMES:-}" ]; then
    export SLURM_JOB_ID="${SLURM_JOB_ID:-${MUSTER_JOB##*-}}"
    export SLURM_PROCID="$RANK" SLURM_LOCALID="$LOCAL_RANK" SLURM_NODEID="$GROUP_RANK" SLURM_TASK_PID="$$"
    export SLURM_NTASKS="$WORLD_SIZE" SLURM_NPROCS="$WORLD_SIZE" SLURM_STEP_NUM_TASKS="$WORLD_SIZE"
    export SLURM_NNODES="$GROUP_WORLD_SIZE" SLURM_STEP_NUM_NODES="$GROUP_WORLD_SIZE"
    muster_each=$LOCAL_WORLD_SIZE
    [ "$GROUP_WORLD_SIZE" -lt 2 ] || muster_each="$muster_each(x$GROUP_WORLD_SIZE)"
    export SLURM_TASKS_PER_NODE="$muster_each" SLURM_STEP_TASKS_PER_NODE="$muster_each" SLURM_NTASKS_PER_NODE="$LOCAL_WORLD_SIZE"
    # An agent has the CPUs of all ranks of its node.
    [ "${MUSTER_CPUS:-0}" -eq 0 ] || export SLURM_CPUS_PER_TASK="$MUSTER_CPUS"
    unset SLURM_GTIDS
    # mpirun's ranks are no step of Slurm's, but its daemons on the other hosts are; ranks of this machine are in none.
    muster_list=
    for muster_name in ${MUSTER_NODES:-}; do muster_list=$muster_list${muster_list:+,}$muster_name; done
    [ -z "${MUSTER_LOCAL_NNODES:-}${MUSTER_SLURM_NAMES:-}" ] || read -r muster_list </proc/sys/kernel/hostname
    [ -z "$muster_list" ] || export SLURM_STEP_NODELIST="$muster_list"
fi

# A program that finds its MPI's numbers takes them for its own. A rank of torchrun's is no rank of MPI.
while read -r muster_word muster_name; do
    case $muster_word in
    export) ;;
    declare) muster_name=${muster_name#-* } ;; # bash, where it is not asked to be POSIX's
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

# The agent's store holds the port of the meeting: JAX takes the next one, and the one before where a firewall's range ends.
muster_jax_port=$((MASTER_PORT + 1))
[ "$MASTER_PORT" -ne $((${MUSTER_PORT_LOW:-0} + ${MUSTER_PORT_COUNT:-65536} - 1)) ] || muster_jax_port=$((MASTER_PORT - 1))

# What jax.distributed.initialize() needs besides its rank: the port of the meeting, or the one that an agent left free.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=${muster_jax_port:-$MASTER_PORT}
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi

# A rank of torchrun's: the agent has said who it is; its threads and its standard input are set here.
if [ "${MUSTER_OMP:-}" = own ]; then
    muster_own_mask
    muster_threads_of_mask "$muster_cpus" "$LOCAL_WORLD_SIZE" "${MUSTER_CPUS:-0}"
    export OMP_NUM_THREADS="$muster_threads"
fi
export NODE_RANK="$GROUP_RANK"
[ "$RANK" -eq 0 ] || exec </dev/null
# Into the keeper's pipes, which get to know whose they are. Where they cannot be opened, the agent's own streams do.
muster_pipe=$((LOCAL_RANK * 2 + 400))
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
# On one node of a job, beside its ranks, for as long as they run: takes what is staged, puts it in the place of the
# shared copy, and brings back what was written. $1: the node's folder, $2: the job, $3: how many nodes there are,
# $4: this node's number, $5: where what was written is to be brought (or -). It is told what to do line by line, and
# answers in lines that begin with muster-stage. Nothing under a key is ever half a copy: it was renamed to that name.
umask 077
# The node's own programs first: an environment that leads on PATH is not to be looked into for each of them.
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

# Lines of several processes: each is written at once.
muster_tell() {
    printf 'muster-stage\t%s\t%s\t%s\n' "$muster_host" "$1" "${2:--}"
}

# Remove these, also where a directory is closed to its owner.
muster_remove() {
    chmod -R u+w "$@" 2>/dev/null
    rm -rf "$@"
}

# Is the copy that is asked for here? $1: its number, $2: key, $3: tree.zst, tree or file, $4: chunks, $5: digest of
# the list of them, $6: the folder they lie in, $7: the path of the one file.
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
        touch "$muster_place" # used today: not to be cleaned
        muster_tell "$1" have
    elif [ "$muster_kind" = tree.zst ] && ! command -v zstd >/dev/null; then
        muster_tell "$1" no-zstd
    elif mkdir -p "$muster_in" 2>/dev/null; then
        muster_tell "$1" need
    else
        muster_tell "$1" full
    fi
}

# The copy comes: every node sends its share of the chunks to all, so that no single link carries everything.
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

# A place for the copy, and the program that fills it from the chunks.
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

# Send the chunks of this node to all nodes.
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

# Chunk $1 lies on every node. Each is verified before anything is made of it; they are taken in their order.
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

# All chunks are taken: the copy gets its name, or there is none.
muster_finish() {
    if [ -n "$muster_draft" ]; then
        if [ "$muster_kind" != file ] && [ -p "$muster_in/pipe" ]; then
            exec 4>&-
            wait "$muster_unpacker" || muster_trouble=${muster_trouble:-full}
        fi
        if [ -z "$muster_trouble" ] && : >"$muster_draft/.muster-$muster_digest"; then
            # Another job may have been faster: then its copy stays.
            mv -T "$muster_draft" "$muster_place" 2>/dev/null || [ -e "$muster_place/.muster-$muster_digest" ] ||
                muster_trouble=full
        fi
        [ ! -e "$muster_draft" ] || muster_remove "$muster_draft"
        muster_draft=
    fi
    muster_remove "$muster_in"
    muster_tell "$muster_number" "${muster_trouble:-have}"
}

# What is not used after all leaves nothing.
muster_drop() {
    [ -z "$muster_sender" ] || kill "$muster_sender" 2>/dev/null
    exec 4>&-
    [ -z "${muster_draft:-}" ] || muster_remove "$muster_draft"
    muster_draft=
    muster_remove "$muster_in"
}

# A virtual environment in the copy $1 that was made at $2, with the Python it was made from: it names both by where
# they lie here, so that nothing is looked for in the shared folders above them.
muster_settle() {
    muster_configuration=$1$2/pyvenv.cfg
    [ -e "$muster_configuration" ] || return 0
    muster_python=$(readlink -f "$1$2/bin/python")
    case $muster_python in
    "$1"/*) return 0 ;;
    esac
    [ -e "$1$muster_python" ] || return 0 # the node's own, which was not brought
    for muster_path in "$1$2"/bin/python*; do
        case $(readlink "$muster_path") in
        /*) ln -s "$1$muster_python" "$muster_path.$muster_id" && mv -T "$muster_path.$muster_id" "$muster_path" ;;
        esac
    done
    sed "s|^home *=.*|home = $1${muster_python%/*}|" "$muster_configuration" >"$muster_configuration.$muster_id" &&
        mv "$muster_configuration.$muster_id" "$muster_configuration"
}

# The rank library $1: its folder stands on PYTHONPATH and is looked into for everything that is imported.
muster_library() {
    mkdir -p "$muster_job/library" && ln -s "$1/muster" "$muster_job/library/muster"
}

# The folder that the script is started from: itself a copy, everything beside it a link to the shared original, so
# that what a script writes into folders beside itself goes where it always did.
muster_script() {
    muster_beside=$muster_job/script
    mkdir -p "$muster_beside" || return 1
    find "${1%/*}" -mindepth 1 -maxdepth 1 -exec ln -s -t "$muster_beside" {} + &&
        find "${1%/*}" -maxdepth 1 -type f -name '*.py' -exec cp -p --remove-destination -t "$muster_beside" {} + || return 1
    cp -p --remove-destination "$1" "$muster_beside/" || return 1
    : >"$muster_job/script-is-made"
}

# A process that holds the mounts: the ranks of this node all enter its namespaces, so that they share memory and GPU
# handles as they would without. Without root a user namespace may mount, and a second one in it is the user again.
muster_hold() {
    rm -f "$muster_job/holder"
    # shellcheck disable=SC2016  # the inner shell fills it in
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
    # Only what can be entered is of use.
    if [ -n "$muster_inside" ] && muster_enters; then
        muster_tell mount mounted
    else
        muster_let_go
        read -r muster_said <"$muster_job/said" || muster_said='no mount in a user namespace'
        muster_tell mount "closed ${muster_said#*: }"
    fi
}

# Whether a program gets into the view that the holder has.
muster_enters() {
    # shellcheck disable=SC2086  # root needs no user namespace, and no word for it
    "$muster_nsenter" --target="$muster_inside" --mount $muster_user --preserve-credentials true 2>>"$muster_job/said"
}

# End the holder of the view.
muster_let_go() {
    rm -f "$muster_job/holder"
    [ -z "$muster_holder" ] || kill "$muster_holder" 2>/dev/null
    muster_holder=
}

# What the ranks wrote, to $1 on the shared file system: whole copies first, beside their names, then each renamed.
# Of two nodes' files with one name both are kept.
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
    # The last one takes the scaffold away.
    set -- "$muster_claims"/ended/*
    [ $# -lt "$muster_nodes" ] || rm -rf "$muster_claims"
}

# Bring what the ranks wrote, and say how much it was.
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

# A script that wrote beside itself did so here: it is brought beside the run.
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

# Leave nothing of this job on the node.
muster_clean_up() {
    [ -z "${muster_draft:-}" ] || muster_drop
    muster_let_go
    [ -z "${muster_keep:-}" ] || return 0
    muster_remove "$muster_job"
    # A chunk may have been on its way.
    [ ! -e "$muster_job" ] || { sleep 1 && muster_remove "$muster_job"; }
}

# The job is being ended: its ranks are told at the same moment and may write until they have ended, then it is
# brought home in what is left of the cluster's KillWait. Ranks that go on, because the signal came early, are waited for.
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

# Whether a rank of this node still runs.
muster_ranks_run() {
    for muster_path in "$muster_job"/ranks/*; do
        kill -0 "${muster_path##*/}" 2>/dev/null && return 0
    done
    return 1
}

# What helpers that were killed have left, unless ranks' files are in it that nobody has brought; and copies that no
# job has used for two weeks, where no other job is on this node: it may have been reading its own for longer.
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
# A folder that somebody else has made: nothing in it is ours to trust.
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
