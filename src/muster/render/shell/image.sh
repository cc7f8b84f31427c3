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

# GPUs are asked for and no profile says which: this node knows.
muster_image_gpus() {
    [ ! -e /dev/nvidiactl ] || export "$1_NV=1"
    [ ! -e /dev/kfd ] || export "$1_ROCM=1"
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
