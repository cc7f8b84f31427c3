# Reports the status of a rank that failed, and hosts whose ends are not all known: of those where the command began,
# and of those that Slurm calls lost.
muster_report_ends() {
    local hosts=() lost=''
    mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    if [ -n "$failed" ]; then
        read -r rank node muster_status <<<"$failed"
        printf 'muster: rank %s on %s ended with status %s\n' "$rank" "${hosts[node]:-?}" "$muster_status" >&2
    fi
    lost=" ${muster_failed_nodes:-} $(timeout 30 sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" \
        --states=down,fail,no_respond --format=%N 2>/dev/null | tr '\n' ' ') "
    for ((node = 0; node < muster_nodes; node++)); do
        [ "${said[node]:-0}" -ne "$each" ] || continue
        [[ -n ${begun[node]:-} || $lost == *" ${hosts[node]:-?} "* ]] || continue
        printf 'muster: how the %s on %s ended is not known\n\nhint: %s\n' "$muster_of" "${hosts[node]:-?}" \
            'a part of the work may be missing: start it again' >&2
        [ "$muster_status" -ne 0 ] || muster_status=1
    done
}
