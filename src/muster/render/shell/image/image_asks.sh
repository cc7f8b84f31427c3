# Runs a short command in the image, with a time limit: an engine that hangs would give no message.
muster_image_asks() {
    if command -v timeout >/dev/null; then
        timeout 120 "$@" </dev/null
    else
        "$@" </dev/null
    fi
}

# Compares the GPUs that torch in the image $2 is built for with the GPUs of the node ($4, or what the node has). One
# rank of each node compares, where Muster could not look into the image before. An image that has to be unpacked, or
# has no sh, is not checked.
muster_image_made_for() {
    [ -n "${muster_unpacked:-}" ] || eval "[ -z \"\${$3_UNSQUASH:-}\" ]" || return 0
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_stack=$(muster_image_asks "$1" --quiet exec "${muster_unpacked:-$2}" sh -c "$muster_stack_text" 2>/dev/null)
    muster_stack_fits "$2" "$4" "${muster_stack##*stack=}"
}

# Checks that the virtual environment $3, of Python $4, runs in the image $2: the image has to have a Python of the same
# version. One rank of each node checks, where Muster could not look into the image before.
muster_image_runs_venv() {
    [ -n "${muster_unpacked:-}" ] || eval "[ -z \"\${$5_UNSQUASH:-}\" ]" || return 0
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_has=$(muster_image_asks "$1" --quiet exec --bind "$3" "${muster_unpacked:-$2}" "$3/bin/python" -c \
        'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    [ "$muster_has" = "$4" ] || muster_stop "the virtual environment $3 was made with Python $4, but in the image $2 \
its python ${muster_has:+is }${muster_has:-does not start}" \
        'make the environment with the Python of the image, or bind the Python that it was made with'
}

# Puts the environment $2 first in the image: before the image's own PATH, or before the PATH that was asked for.
muster_image_venv() {
    export "${1}PREPEND_PATH=$2/bin" "${1}VIRTUAL_ENV=$2"
    eval "muster_value=\${${1}PATH-}"
    [ -z "$muster_value" ] || export "${1}PATH=$2/bin:$muster_value"
}
