# The container sees the run directory; its definition, a line in each word, lies there.
# shellcheck disable=SC2119,SC2120  # where an engine has no definition, the directory alone is made
muster_define() {
    (umask 077 && mkdir -p "$muster_run_dir") || muster_stop "the directory $muster_run_dir cannot be made" \
        'submit from a directory that the compute nodes can write'
    [ $# -eq 0 ] || printf '%s\n' "$@" >"$muster_run_dir/image.toml"
}
