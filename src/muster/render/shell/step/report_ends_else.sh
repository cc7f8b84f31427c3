# Reads the files of all nodes: the first rank that failed gives the status, and the ends of a host where the command
# began have to be there.
muster_read_ends() {
    local names=() node rank word due ended
    mapfile -t names < <(trap '' TERM && exec scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    for ((node = 0; node < muster_nodes; node++)); do
        due=0 ended=0
        while read -r rank word; do
            [ "$word" != begins ] || { due=$each && continue; }
            ended=$((ended + 1))
            [ "$muster_status" -ne 0 ] || muster_status=$word
            ((!word)) || printf 'muster: rank %s on %s ended with status %s\n' "$rank" "${names[node]:-?}" "$word" >&2
        done < <(cat "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}.$node" 2>/dev/null)
        [ "$ended" -lt "$due" ] || continue
        printf 'muster: how the %s on %s ended is not known\n\nhint: %s\n' "$muster_of" "${names[node]:-?}" \
            'a part of the work may be missing: start it again' >&2
        [ "$muster_status" -ne 0 ] || muster_status=1
    done
}
