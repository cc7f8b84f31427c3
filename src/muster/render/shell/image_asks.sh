# Runs $1 in the image, where it is short: of an engine that hangs nobody would hear.
muster_image_asks() {
    if command -v timeout >/dev/null; then
        timeout 120 "$@" </dev/null
    else
        "$@" </dev/null
    fi
}

# The kind of GPUs that torch in the image $2 is built for, against those of the node: $4, or what the node has. Asked
# once a node, where nobody could look into the image before; one that has to be unpacked, or has no sh, is not asked.
muster_image_made_for() {
    [ -n "${muster_unpacked:-}" ] || eval "[ -z \"\${$3_UNSQUASH:-}\" ]" || return 0
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_stack=$(muster_image_asks "$1" --quiet exec "${muster_unpacked:-$2}" sh -c "$muster_stack_text" 2>/dev/null)
    muster_stack_fits "$2" "$4" "${muster_stack##*stack=}"
}

# The virtual environment $3, of Python $4, runs in the image $2: its Python stands on one that the image has to have,
# of the same version. Asked once a node, where nobody could look into the image before.
muster_image_runs_venv() {
    [ -n "${muster_unpacked:-}" ] || eval "[ -z \"\${$5_UNSQUASH:-}\" ]" || return 0
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_has=$(muster_image_asks "$1" --quiet exec --bind "$3" "${muster_unpacked:-$2}" "$3/bin/python" -c \
        'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [ "$muster_has" = "$4" ] || muster_stop \
        "the virtual environment $3 is of Python $4, and in the image $2 its python ${muster_has:+is }${muster_has:-does not start}" \
        'make it with the Python of the image, or bind the Python that it was made with'
}

# The environment $2 comes first in the image: before the image's PATH, or before the one that was asked for.
muster_image_venv() {
    export "${1}PREPEND_PATH=$2/bin" "${1}VIRTUAL_ENV=$2"
    eval "muster_value=\${${1}PATH-}"
    [ -z "$muster_value" ] || export "${1}PATH=$2/bin:$muster_value"
}
