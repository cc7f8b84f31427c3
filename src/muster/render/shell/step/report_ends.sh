# Reads the files of all nodes, and reports what they lack.
muster_read_ends() {
    local node rank word failed='' in_blocks=1 begun=() ends=() said=()
    for ((node = 0; node < muster_nodes; node++)); do
        while read -r rank word; do
            case $word in
            begins) begun[node]=1 && { [ "$rank" -eq $((node * each)) ] || in_blocks=''; } ;;
            0) ends[rank]=0 said[node]=$((${said[node]:-0} + 1)) ;;
            *) ends[rank]=$word said[node]=$((${said[node]:-0} + 1)) && : "${failed:=$rank $node $word}" ;;
            esac
        done <"${MUSTER_ENDS:-/dev/null}/${MUSTER_ATTEMPT:-1}.$node"
        [ ! -e "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}.$node.signalled" ] || "${muster_tell:-:}" signalled
    done 2>/dev/null
    [ "$failed ${#ends[@]}" = " $((muster_nodes * each))" ] || muster_report_ends
}

# Reports another status than 0, and the ends that are missing: of hosts where the command began, and of hosts that
# Slurm calls lost. What is not known of any other host, which does not see the folder for example, counts as nothing.
# The supervisor of the job, if it has one, is told of each host whose ends are not known. Slurm, which ends a job that
# lost a host, ends Slurm's own programs here too: they do not hear it.
muster_report_ends() {
    local asks=(timeout -s KILL 30 sh -c "trap '' TERM && exec \"\$@\"" sh)
    local names=() list state reason host count subject unsaid=
    local -A states=()
    mapfile -t names < <("${asks[@]}" scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    while read -r host state reason; do
        case $state in down* | fail* | *'*') states[$host]="$state${reason:+ ($reason)}" ;; esac
    done < <("${asks[@]}" sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %t %E' 2>/dev/null)
    for host in ${muster_failed_nodes:-}; do : "${states[$host]:=lost}"; done
    if [ -n "$failed" ]; then
        read -r rank node muster_status <<<"$failed"
        printf 'muster: rank %s on %s ended with status %s\n' "$rank" "${names[node]:-?}" "$muster_status" >&2
    fi
    for ((node = 0; node < muster_nodes; node++)); do
        host=${names[node]:-?} list='' count=$((each - ${said[node]:-0}))
        [ "$count" -ne 0 ] || continue
        [ -n "${begun[node]:-}${states[$host]:-}" ] || continue
        for ((rank = node * each; rank < (node + 1) * each; rank++)); do
            [ -n "${ends[rank]:-}" ] || list+=${list:+,}$rank
        done
        subject="rank $list"
        [ "$count" -eq 1 ] || subject="ranks $list"
        [ "$count" -lt "$each" ] || [ "$each" -eq 1 ] || subject="ranks $((node * each))-$((node * each + each - 1))"
        # A launcher may have dealt the ranks in another order: which of them was on this host is then not known.
        [ -n "$in_blocks" ] || subject="a rank"
        [ "$muster_of" = ranks ] || subject="the agent"
        subject="how $subject on $host ended is not known${states[$host]:+; Slurm calls $host ${states[$host]}}"
        printf 'muster: %s\n' "$subject" >&2
        unsaid=${states[$host]:+lost}
        "${muster_tell:-:}" unsaid "$host" "${unsaid:=heard}" "$subject"
    done
    [ -n "$unsaid" ] || return
    [ "$muster_status" -ne 0 ] || muster_status=1
    printf '\nhint: %s\n' \
        'a part of the work may be missing: start it again; with --restart 1 --spares 1 the job does so by itself' >&2
}
