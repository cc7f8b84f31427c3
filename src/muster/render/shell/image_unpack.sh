# A file, the image $3, is mounted by a setuid helper or by FUSE. Where users have neither, the engine unpacks it for
# every rank (--unsquash); of several ranks on a node, or with an engine that cannot, one unpacks it for all of them.
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
    # shellcheck disable=SC2154  # of the part that tells who this is
    [ "$muster_rank" -ne 0 ] || printf 'muster: /dev/fuse is closed to users on %s: %s\n' "$muster_here" "$muster_how" >&2
}

# The image $3 as a directory of this node's own; the first rank here makes it, the others wait for its end. What a
# killed job of ours left here goes first. Rank 0 tells the script, which removes it.
muster_image_unpack() {
    muster_name=.muster-image-${MUSTER_JOB:-0}
    muster_place=${TMPDIR:-/tmp}/$muster_name.$muster_port.$muster_here
    if [ "${muster_local_rank:-0}" -eq 0 ]; then
        [ "$muster_rank" -ne 0 ] || { mkdir -p "${MUSTER_RUN_DIR:-.}" && : >"${MUSTER_RUN_DIR:-.}/$muster_name"; }
        for muster_path in "${TMPDIR:-/tmp}"/.muster-image-*."$muster_here"/owner; do
            [ -O "$muster_path" ] && [ -O "${muster_path%/owner}" ] && [ ! -L "${muster_path%/owner}" ] && read -r muster_owner <"$muster_path" && ! kill -0 "$muster_owner" 2>/dev/null &&
                muster_image_remove "${muster_path%/owner}"
        done
        (umask 077 && mkdir "$muster_place") || muster_stop "the directory $muster_place cannot be made on $muster_here" \
            'name another with TMPDIR'
        echo "$$" >"$muster_place/owner"
        eval "export $2_TMPDIR=\$muster_place"
        muster_said=$("$1" build --sandbox "$muster_place/image" "$3" </dev/null 2>&1)
        muster_status=$?
        unset "$2_TMPDIR"
        # On a disk that is full nothing can be told before there is room again.
        [ "$muster_status" -eq 0 ] || muster_image_remove "$muster_place/image"
        echo "$muster_status" >"$muster_place/status.new" && mv "$muster_place/status.new" "$muster_place/status"
    else
        # What somebody else has made under this name is not waited for: the first rank cannot make its own.
        until [ -O "$muster_place" ] && [ ! -L "$muster_place" ] && [ -e "$muster_place/status" ]; do sleep 0.1 2>/dev/null || sleep 1; done
        read -r muster_status <"$muster_place/status"
    fi
    if [ "$muster_status" -ne 0 ]; then
        [ "${muster_local_rank:-0}" -eq 0 ] || exit 2
        muster_image_remove "$muster_place"
        muster_stop "the image $3 cannot be unpacked on $muster_here: $(muster_image_complaint "$muster_said")" \
            "there has to be room for it in ${TMPDIR:-/tmp}; TMPDIR names another place, and a sandbox directory needs no unpacking"
    fi
    # shellcheck disable=SC2034  # of the words below
    muster_packed=$3
    export "$2_UNSQUASH=1" # so that nobody asks the file
    muster_unpacked=$muster_place/image
}

# The line in what an engine said that tells what is wrong, else its last.
muster_image_complaint() {
    muster_line=$(printf '%s\n' "$1" | grep -i -e FATAL -e 'no space' | tail -n 1)
    printf '%s' "${muster_line:-$(printf '%s\n' "$1" | tail -n 1)}"
}

# A tree may hold directories that are closed to their owner.
muster_image_remove() {
    chmod -R u+rwX "$1" 2>/dev/null
    rm -rf "$1"
}

# The command, with the directory in the place of the file: the word behind --pwd and its value.
# shellcheck disable=SC2016,SC2034  # the prologue runs it, where its own words are
muster_image_words='
if [ -n "${muster_unpacked:-}" ]; then
    unset APPTAINER_UNSQUASH SINGULARITY_UNSQUASH
    muster_left=$#
    muster_one= muster_two=
    while [ "$muster_left" -gt 0 ]; do
        muster_word=$1
        shift
        [ "$muster_two" != --pwd ] || [ "$muster_word" != "$muster_packed" ] || muster_word=$muster_unpacked muster_packed=
        set -- "$@" "$muster_word"
        muster_two=$muster_one muster_one=$muster_word
        muster_left=$((muster_left - 1))
    done
fi'
