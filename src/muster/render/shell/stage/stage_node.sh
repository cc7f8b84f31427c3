# The helper of one node, which runs as long as the ranks of the job. It receives the copies, mounts them over the
# shared files, and brings back what the ranks wrote. $1: the node's folder, $2: the job, $3: the number of nodes, $4:
# this node's number, $5: where to bring what the ranks wrote (or -). It reads one order per line, the name of a
# function with its words, and answers in lines that begin with muster-stage. A copy gets its name only when it is
# complete.
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
    [ "$(sha256sum <"$muster_in/chunks" 2>/dev/null)" = "$muster_digest  -" ] ||
        muster_trouble=${muster_trouble:-damaged}
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
        if muster_said=$(sbcast --force --size=8000000 "$muster_from/$muster_name" "$muster_in/$muster_name" 2>&1 \
            </dev/null); then
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
muster_take_chunk() {
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

# Makes the folder from which the script $1 is started, and answers whether it is made.
muster_script() {
    muster_made=full
    muster_make_beside "$1" && muster_made=made
    muster_at_end=muster_beside_script
    muster_tell script "$muster_made"
}

# Makes that folder: Python files are copies, everything else is a link to the shared original. What the script $1
# writes into the folders beside it therefore reaches the shared ones.
muster_make_beside() {
    muster_beside=$muster_job/script
    mkdir -p "$muster_beside" || return 1
    find "${1%/*}" -mindepth 1 -maxdepth 1 -exec ln -s -t "$muster_beside" {} + &&
        find "${1%/*}" -maxdepth 1 -type f -name '*.py' -exec cp -p --remove-destination -t "$muster_beside" {} + ||
            return 1
    cp -p --remove-destination "$1" "$muster_beside/" || return 1
    : >"$muster_job/script-is-made"
}

# Notes that the copy $1 is to be mounted over the shared path $2.
muster_bind() { printf '%s\t%s\n' "$1" "$2" >>"$muster_job/binds"; }

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
        { echo >"$muster_job/room"; } 2>/dev/null || muster_said="no room in $muster_job"
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
    muster_brought=0
    [ -n "$(find "$2" -mindepth 1 -print 2>/dev/null | head -n 1)" ] || return 0
    mkdir -p "$muster_part" && cp -a "$2/." "$muster_part/" || return 1
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
}

# Brings what the ranks wrote, and reports how many files. The last node removes the temporary folder: before, another
# node may still bring.
muster_bring_all() {
    [ "$muster_out" != - ] && [ -d "$muster_job/out" ] || return 0
    if muster_bring "$muster_out" "$muster_job/out"; then
        mkdir -p "$muster_claims/ended/$muster_host" 2>/dev/null
        set -- "$muster_claims"/ended/*
        [ $# -lt "$muster_nodes" ] || rm -rf "$muster_claims"
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

# Ends this helper: brings what was written, to the run $1 what the script wrote beside itself.
muster_end() {
    "${muster_at_end:-:}" "$1"
    muster_bring_all
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
while IFS=$muster_tab read -r muster_order muster_a muster_b muster_c muster_d muster_e muster_f muster_g; do
    "$muster_order" "$muster_a" "$muster_b" "$muster_c" "$muster_d" "$muster_e" "$muster_f" "$muster_g"
    [ "$muster_order" != muster_end ] || break
done
muster_clean_up
muster_tell end ended
