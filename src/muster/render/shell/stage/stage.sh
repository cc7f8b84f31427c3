# Staging: copies on the nodes' own disks, on all nodes or on none. If a thing cannot be staged, a warning names it and
# the ranks use the shared one.
muster_stage_warn() { printf 'muster: warning: %s\n' "$*" >&2; }

# Starts a helper on every node of the job. folder: on the nodes. out: where to bring what the ranks write.
muster_stage_begin() {
    local muster_folder muster_out=-
    muster_take 'muster_stage_begin: folder out' "$@"
    muster_stage_top=$muster_folder/muster-stage-$UID
    muster_stage_out=$muster_out
    [ "$muster_out" = - ] || mkdir -p "$muster_out" || muster_stop \
        "the directory $muster_out, for the files that the ranks write, cannot be made" \
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
            answer="$word $host $about $answer"
            answer=${answer%"${answer##*[! ]}"}
            [ -z "$answer" ] || said=("$answer")
            continue
        fi
        [ "$about" = "$1" ] || continue
        case $answer in
        'sent '*) printf 'muster_take_chunk\t%s\n' "${answer#sent }" >&"$muster_stage_to" ;;
        'unsent '*)
            muster_stage_trouble="${answer#unsent } does not accept the copy: its disk may be full"
            return 1
            ;;
        *)
            count=$((count + 1))
            muster_stage_answers+=("$answer")
            case $answer in
            "$2" | need) ;;
            full) muster_stage_trouble="$muster_stage_top on $host is full, or you cannot write there" ;;
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

# Stages one thing. number, name: its name in words. packed: the folder with its packed form. path: one in it.
# unchanged: a path whose change makes the packed form old. The path of the copy is in $muster_stage_place.
muster_stage_thing() {
    local muster_number muster_name muster_packed key kind count digest when file=- path began=$SECONDS words=() \
        paths=() signs=()
    for path in "$@"; do
        case $path in
        path=*) paths+=("${path#*=}") ;;
        unchanged=*) signs+=("${path#*=}") ;;
        *) words+=("$path") ;;
        esac
    done
    muster_take 'muster_stage_thing: number name packed path unchanged' "${words[@]}"
    muster_stage_place=
    muster_stage_trouble=
    [ "$muster_stage_alive" -eq 1 ] || return 1
    if ! IFS=$'\t' read -r key kind count digest when 2>/dev/null <"$muster_packed/latest"; then
        muster_stage_trouble='it is not packed yet (muster submit and muster run pack it)'
    else
        for path in "${signs[@]}"; do
            [ ! "$path" -nt "$muster_packed/latest" ] ||
                muster_stage_trouble="$path has changed since it was packed ($when)"
        done
    fi
    [ "$kind" != file ] || file=${paths[0]}
    if [ -z "$muster_stage_trouble" ]; then
        printf 'muster_look\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
            "$muster_number" "$key" "$kind" "$count" "$digest" "$muster_packed/$key" "$file" >&"$muster_stage_to"
        muster_stage_hear "$muster_number" have
        if [ -z "$muster_stage_trouble" ] && [[ " ${muster_stage_answers[*]} " == *' need '* ]]; then
            printf 'muster_fetch\n' >&"$muster_stage_to"
            muster_stage_hear "$muster_number" have || [ "$muster_stage_alive" -ne 1 ] ||
                printf 'muster_drop\n' >&"$muster_stage_to"
        fi
    fi
    if [ "$muster_stage_alive" -ne 1 ]; then
        muster_stage_lose "$muster_stage_trouble"
        return 1
    fi
    if [ -n "$muster_stage_trouble" ]; then
        muster_stage_warn "$muster_name is not staged: $muster_stage_trouble; all ranks use the shared one"
        return 1
    fi
    muster_stage_place=$muster_stage_top/$key-${digest:0:8}
    printf 'muster: %s: on %s nodes (%s s), as of %s\n' "$muster_name" "$muster_stage_nodes" "$((SECONDS - began))" \
        "$when" >&2
}

# Notes the paths $@, which lie under $muster_stage_place: the ranks will see each one under its own name.
muster_stage_over() {
    local path
    for path in "$@"; do
        muster_stage_mounts+=("$muster_stage_place$path"$'\t'"$path")
    done
}

# Copies the folder of the script's file, without its subfolders: Python looks there for each module that it imports.
# name: the script, as the command names it.
muster_stage_script() {
    local muster_name muster_file
    muster_take 'muster_stage_script: name file' "$@"
    [ "$muster_stage_alive" -eq 1 ] || return 0
    muster_stage_trouble=
    printf 'muster_script\t%s\n' "$muster_file" >&"$muster_stage_to"
    if muster_stage_hear script made; then
        export MUSTER_STAGE_SCRIPT=$muster_name \
            MUSTER_STAGE_SCRIPT_HERE=$muster_stage_top/job-$SLURM_JOB_ID/script/${muster_file##*/}
    else
        muster_stage_warn "the script's folder is not staged: $muster_stage_trouble"
    fi
}

# Uses the copy of the environment $1.
muster_stage_environment() {
    muster_stage_environment_at=$muster_stage_place
    printf 'muster_settle\t%s\t%s\n' "$muster_stage_place" "$1" >&"$muster_stage_to"
    # The environment is started under this name: the folders above it are then on the node's disk, too.
    export MUSTER_STAGE_ENV=$1 MUSTER_STAGE_ENV_HERE=$muster_stage_place$1
}

# Keeps the shared path $1, which is not in the archive.
muster_stage_except() {
    muster_stage_mounts+=("$1"$'\t'"$muster_stage_place$1")
}

# Starts the copy of the image's file. name: the image, as the command names it.
muster_stage_image() {
    local muster_name muster_file
    muster_take 'muster_stage_image: name file' "$@"
    export MUSTER_STAGE_IMAGE=$muster_name MUSTER_STAGE_IMAGE_HERE=$muster_stage_place$muster_file
}

# Names the node's folder for the ranks: what they find there, and where they write.
muster_stage_ready() {
    [ "$muster_stage_alive" -eq 1 ] || return 1
    export MUSTER_STAGE=$muster_stage_top/job-$SLURM_JOB_ID
    [ "$muster_stage_out" = - ] || muster_stage_mounts+=("$MUSTER_STAGE/out"$'\t'"$muster_stage_out")
}

# Stages the folder $1 of the rank library.
muster_stage_library() {
    [ "$muster_stage_alive" -eq 1 ] || return 0
    printf 'muster_library\t%s\n' "$1" >&"$muster_stage_to"
    export MUSTER_STAGE_LIBRARY=$1
}

# Mounts the copies over the shared paths, in a mount namespace that the ranks of each node enter.
muster_stage_mount() {
    muster_stage_ready || return 0
    if [ "${#muster_stage_mounts[@]}" -eq 0 ]; then
        trap - PIPE
        return 0
    fi
    muster_stage_trouble=
    printf 'muster_bind\t%s\n' "${muster_stage_mounts[@]}" >&"$muster_stage_to"
    printf 'muster_hold\n' >&"$muster_stage_to"
    muster_stage_hear mount mounted && trap - PIPE && return
    [ "$muster_stage_alive" -eq 1 ] || muster_stage_lose "$muster_stage_trouble"
    [ "$muster_stage_alive" -ne 1 ] || printf 'muster_let_go\n' >&"$muster_stage_to"
    trap - PIPE
    return 1
}

# Decides what to use where users may not mount. An environment that works under another path (relocatable=yes) is used
# under the path of its copy.
# shellcheck disable=SC2120  # not every job uses its word
muster_stage_closed() {
    local muster_relocatable=
    muster_take 'muster_stage_closed: relocatable' "$@"
    [ "$muster_stage_alive" -eq 1 ] || return 0
    if [ -n "$muster_relocatable" ] && [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn \
            "$muster_stage_trouble: the ranks use the environment as $MUSTER_STAGE_ENV_HERE and all other shared files"
    elif [ -n "${muster_stage_environment_at:-}" ]; then
        muster_stage_warn \
            "$muster_stage_trouble, and the environment contains its own path (it is not relocatable):" \
            'all ranks use the shared files'
        unset MUSTER_STAGE_ENV
    else
        muster_stage_warn "$muster_stage_trouble: all ranks use the shared files"
    fi
    muster_stage_out=-
}

# Binds the copies into the image under the shared paths, by its engine's variable $1.
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
    printf 'muster_end\t%s\n' "$muster_run_dir" >&"$muster_stage_to"
    while IFS=$'\t' read -r -t 900 -u "$muster_stage_from" word host about answer; do
        [ "$word" = muster-stage ] || continue
        case $about:$answer in
        out:brought*)
            seen=$((seen + 1))
            [ "${answer#brought }" -eq 0 ] ||
                printf 'muster: %s: %s files to %s\n' "$host" "${answer#brought }" "$muster_stage_out" >&2
            ;;
        out:kept*) muster_stage_warn \
            "what the ranks wrote on $host could not be brought to $muster_stage_out:" \
            "it stays on $host in ${answer#kept }" ;;
        script:*) muster_stage_warn "the script wrote files into its own folder on $host: they are now in $answer" ;;
        end:*) ;;
        esac
    done
    [ "$muster_stage_out" = - ] || [ "$seen" -eq "$muster_stage_nodes" ] ||
        muster_stage_warn \
            "only $seen of $muster_stage_nodes nodes report that their files are in $muster_stage_out;" \
            "the others keep them in $muster_stage_top"
}
