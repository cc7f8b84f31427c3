# Reports the status of a rank that failed, or that the ends of a host where the command began are not all known.
muster_report_ends() {
    local lost=''
    [ -z "$failed" ] || muster_status=${failed##* }
    for ((node = 0; node < muster_nodes; node++)); do
        [ -z "${begun[node]:-}" ] || [ "${said[node]:-0}" -eq "$each" ] || lost+=" $node"
    done
    [ -z "$lost" ] || printf 'muster: how the ranks of node%s of %s ended is not known\n' "$lost" \
        "$SLURM_JOB_NODELIST" >&2
    [ -z "$lost" ] || [ "$muster_status" -ne 0 ] || muster_status=1
}
