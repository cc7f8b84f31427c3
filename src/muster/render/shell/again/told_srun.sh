# The first task whose end srun reports in these files. Results in $muster_failed_host and $muster_failed_rank.
muster_find_failed() {
    local file messages
    messages=$(for file in "$@"; do tail -c 262144 "$file"; done | sed -n \
        -e 's/^srun: error: Node failure on \([^ ]*\).*/node \1/p' \
        -e 's/^srun: error: \([^: ]*\): tasks\{0,1\} \([0-9][0-9]*\)[0-9,-]*: .*/task \1 \2/p')
    # Where a node fails, Slurm ends the tasks of the others, and srun may tell of these first.
    read -r _ muster_failed_host muster_failed_rank < <(printf '%s\n' "$messages" | sort -s -k 1,1 | head -n 1)
}
