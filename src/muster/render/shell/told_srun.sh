# The first task whose end srun reports in these files. Results in $muster_failed_host and $muster_failed_rank.
muster_find_failed() {
    local file
    read -r muster_failed_host muster_failed_rank < <(for file in "$@"; do tail -c 262144 "$file"; done | sed -n \
        -e 's/^srun: error: \([^: ]*\): tasks\{0,1\} \([0-9][0-9]*\)[0-9,-]*: .*/\1 \2/p' \
        -e 's/^srun: error: Node failure on \([^ ]*\).*/\1/p' | head -n 1)
}
