# The image $3 is a file, which a setuid helper or FUSE mounts. Where users have neither, the engine unpacks the image
# for every rank (--unsquash). If a node has several ranks, or the engine has no --unsquash, one rank unpacks it for
# all.
muster_image_opens() {
    [ ! -w /dev/fuse ] || return 0
    muster_program=$(command -v "$1")
    muster_base=${muster_program%/bin/*}
    for muster_starter in "$muster_base"/libexec/*/bin/starter-suid "$muster_base"/lib/*/bin/starter-suid \
        "$muster_base"/lib/*/*/bin/starter-suid; do
        [ ! -u "$muster_starter" ] || return 0
    done
    if [ "${muster_local_size:-1}" -eq 1 ] && "$1" exec --help 2>/dev/null | grep -q -e --unsquash; then
        export "$2_UNSQUASH=1"
        muster_how='the image is unpacked when its rank starts (--unsquash); a sandbox directory needs no unpacking'
    else
        muster_image_unpack "$1" "$2" "$3"
        muster_how="every node unpacks the image once, to $muster_unpacked, until the end of the job"
    fi
    # shellcheck disable=SC2154  # another part of the prologue sets it
    [ "$muster_rank" -ne 0 ] ||
        printf 'muster: users may not open /dev/fuse on %s: %s\n' "$muster_here" "$muster_how" >&2
}

# Unpacks the image $3 into a directory of this node. The first rank of the node unpacks, the other ranks wait for it.
# What this user's killed jobs left on the node is removed first. Rank 0 leaves a mark for the script, which removes the
# directory.
muster_image_unpack() {
    muster_name=.muster-image-${MUSTER_JOB:-0}
    muster_place=${TMPDIR:-/tmp}/$muster_name.$muster_port.$muster_here
    if [ "${muster_local_rank:-0}" -eq 0 ]; then
        [ "$muster_rank" -ne 0 ] || { mkdir -p "${MUSTER_RUN_DIR:-.}" && : >"${MUSTER_RUN_DIR:-.}/$muster_name"; }
        for muster_path in "${TMPDIR:-/tmp}"/.muster-image-*."$muster_here"/owner; do
            [ -O "$muster_path" ] && [ -O "${muster_path%/owner}" ] && [ ! -L "${muster_path%/owner}" ] &&
                read -r muster_owner <"$muster_path" && ! kill -0 "$muster_owner" 2>/dev/null &&
                muster_image_remove "${muster_path%/owner}"
        done
        (umask 077 && mkdir "$muster_place") ||
            muster_stop "the directory $muster_place cannot be made on $muster_here" \
            'name another place with TMPDIR'
        echo "$$" >"$muster_place/owner"
        eval "export $2_TMPDIR=\$muster_place"
        muster_said=$("$1" build --sandbox "$muster_place/image" "$3" </dev/null 2>&1)
        muster_status=$?
        unset "$2_TMPDIR"
        # On a full disk the status can only be written after the image is removed.
        [ "$muster_status" -eq 0 ] || muster_image_remove "$muster_place/image"
        echo "$muster_status" >"$muster_place/status.new" && mv "$muster_place/status.new" "$muster_place/status"
    else
        # A directory of another user under this name is ignored: the first rank stops with an error of its own then.
        until [ -O "$muster_place" ] && [ ! -L "$muster_place" ] &&
            [ -e "$muster_place/status" ]; do sleep 0.1 2>/dev/null || sleep 1; done
        read -r muster_status <"$muster_place/status"
    fi
    if [ "$muster_status" -ne 0 ]; then
        [ "${muster_local_rank:-0}" -eq 0 ] || exit 2
        muster_image_remove "$muster_place"
        muster_stop "the image $3 cannot be unpacked on $muster_here: $(muster_image_complaint "$muster_said")" \
            "make room in ${TMPDIR:-/tmp}, name another place with TMPDIR, or use a sandbox directory"
    fi
    # shellcheck disable=SC2034  # muster_image_words uses it
    muster_packed=$3
    export "$2_UNSQUASH=1" # no later check runs the packed file
    muster_unpacked=$muster_place/image
}

# Prints the line of an engine's output $1 that names the cause, else its last line.
muster_image_complaint() {
    muster_line=$(printf '%s\n' "$1" | grep -i -e FATAL -e 'no space' | tail -n 1)
    printf '%s' "${muster_line:-$(printf '%s\n' "$1" | tail -n 1)}"
}

# Removes the tree $1, which may hold directories that their owner may not enter.
muster_image_remove() {
    chmod -R u+rwX "$1" 2>/dev/null
    rm -rf "$1"
}

# Replaces the image file in the command with the directory: it is the word after --pwd and its value.
# shellcheck disable=SC2016,SC2034  # the prologue runs this text with the words of its command
muster_image_words='
if [ -n "${muster_unpacked:-}" ]; then
    unset APPTAINER_UNSQUASH SINGULARITY_UNSQUASH
    muster_left=$#
    muster_one= muster_two=
    while [ "$muster_left" -gt 0 ]; do
        muster_word=$1
        shift
        [ "$muster_two" != --pwd ] || [ "$muster_word" != "$muster_packed" ] ||
            muster_word=$muster_unpacked muster_packed=
        set -- "$@" "$muster_word"
        muster_two=$muster_one muster_one=$muster_word
        muster_left=$((muster_left - 1))
    done
fi'
