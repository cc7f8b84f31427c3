# What was compiled into the environment uses these of a CPU ($@); one rank of a node looks.
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
            printf 'muster: warning: the virtual environment was compiled on a CPU with %s, and that of %s has none: %s\n' \
                "$muster_flag" "$muster_here" 'what was compiled may end with an illegal instruction; build it there, with --job' >&2
            return 0
            ;;
        esac
    done
}
