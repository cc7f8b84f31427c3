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
            "the image $muster_of has glibc 2.$muster_has, but the host's $muster_path in it needs 2.$muster_wants" \
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
    [ -z "$muster_more" ] ||
        eval "export ${muster_prefix}_BIND=\"\${${muster_prefix}_BIND:+\$${muster_prefix}_BIND,}\$muster_more\""
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
    for muster_name in $(env |
        sed -n 's/^\(OMPI_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PMIX\{0,1\}2\{0,1\}_[A-Za-z0-9_]*\)=.*/\1/p'); do
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
