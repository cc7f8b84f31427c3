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
