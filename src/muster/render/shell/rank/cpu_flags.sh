# Warns if this node's CPU lacks one of the features $@, which the compiled parts of the environment use. One rank of
# each node looks.
muster_cpu_has() {
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    while read -r muster_line; do
        case $muster_line in flags* | Features*) break ;; esac
    done </proc/cpuinfo
    read -r muster_here </proc/sys/kernel/hostname
    for muster_flag in "$@"; do
        case "$muster_line " in
        *" $muster_flag "*) ;;
        *)
            printf 'muster: warning: %s %s, but the CPU of %s does not have it: %s %s\n' \
                'the virtual environment was compiled on a CPU with' "$muster_flag" "$muster_here" \
                'compiled code may end with an illegal instruction;' \
                'build the environment on such a node, with --job' >&2
            return 0
            ;;
        esac
    done
}
