# Makes the run directory, which the container sees, and writes the container's definition there, one line for each
# word.
# shellcheck disable=SC2119,SC2120  # an engine without a definition needs only the directory
muster_define() {
    (umask 077 && mkdir -p "$muster_run_dir") || muster_stop "the directory $muster_run_dir cannot be made" \
        'submit from a directory that the compute nodes can write'
    [ $# -eq 0 ] || printf '%s\n' "$@" >"$muster_run_dir/image.toml"
}
