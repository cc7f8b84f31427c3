# The first rank that failed, as the agents report it in these files. Results in $muster_failed_host and $muster_failed_rank.
muster_find_failed() {
    read -r _ _ muster_failed_host muster_failed_rank < <(awk '
        /Root Cause \(first observed failure\)/ { root = 1 }
        root && / time +: / { when = $3 }
        root && / host +: / { host = $3 }
        root && / rank +: / { rank = $3 }
        root && / exitcode +: / { print ($3 == -15), when, host, rank; root = 0 }
    ' "$@" 2>/dev/null | sort | head -n 1)
    [ -n "$muster_failed_host" ] || muster_failed_host=$(sed -n 's/^srun: error: Node failure on \([^ ]*\).*/\1/p' "$@" | head -n 1)
}
