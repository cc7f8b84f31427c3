# Counts the ends: the shell around each process that the launcher starts (a rank, or an agent of torchrun) writes into the file
# of its node, RUN/ranks/JOB/ATTEMPT.NODE, that it begins and how it ended. A launcher's 0 is believed after counting: srun says 0
# where a rank died with its host.

# Makes the folder of this job, and prints it. Where none can be made, srun's word on lost nodes is all that is known.
muster_ends() {
    local folder
    printf -v folder '%s/%s.%(%s)T.%s' "${muster_ends_dir:-$muster_run_dir/ranks}" "$SLURM_JOB_ID" -1 "$$"
    (umask 077 && mkdir -p "$folder") 2>/dev/null && printf '%s' "$folder" && "${muster_tell:-:}" ends "$folder"
}

# Makes a launcher's 0 another status where a process did not say that it ended with 0. of=ranks, or agents: one on each node.
# The supervisor of the job, if it has one, is told of each host whose ends are not known.
muster_count_ends() {
    local muster_of
    muster_take 'muster_count_ends: of' "$@"
    muster_unsaid=
    [ "$muster_status" -ne 0 ] || [ -n "${muster_interrupted:-}" ] || muster_read_ends
    # The memory of nodes reads on which nodes a script ran well.
    [ "$muster_status" -ne 0 ] || [ -z "${muster_logs:-}" ] ||
        (umask 077 && printf '%(%s)T\t%s\n' -1 "$SLURM_JOB_NODELIST" >>"$muster_run_dir/well") 2>/dev/null
    [ "$muster_status" -ne 0 ] || [ -z "$MUSTER_ENDS" ] || { rm -rf "$MUSTER_ENDS" && rmdir "${MUSTER_ENDS%/*}"; } 2>/dev/null
}

# Reads the files of all nodes, and reports what they lack.
muster_read_ends() {
    local each=$muster_ntasks_per_node node rank word count=0 in_blocks=1 failed='' begun=() ends=() said=()
    [ "$muster_of" = ranks ] || each=1
    for ((node = 0; node < muster_nodes; node++)); do
        while read -r rank word; do
            case $word in
            begins) begun[node]=1 && { [ "$rank" -eq $((node * each)) ] || in_blocks=''; } ;;
            0) ends[rank]=0 said[node]=$((${said[node]:-0} + 1)) count=$((count + 1)) ;;
            *) ends[rank]=$word said[node]=$((${said[node]:-0} + 1)) && : "${failed:=$rank $node $word}" ;;
            esac
        done <"${MUSTER_ENDS:-/dev/null}/${MUSTER_ATTEMPT:-1}.$node"
    done 2>/dev/null
    [ "$count" -eq $((muster_nodes * each)) ] || muster_report_ends
}

# Reports the ends that are missing: of hosts where the command began, and of hosts that Slurm calls lost. What is not known of
# any other host, which does not see the folder for example, counts as nothing.
muster_report_ends() {
    local names=() list='' state reason host
    local -A states=()
    mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    while read -r host state reason; do
        case $state in down* | fail* | *'*') states[$host]="$state${reason:+ ($reason)}" ;; esac
    done < <(timeout 30 sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %t %E' 2>/dev/null)
    if [ -n "$failed" ]; then
        read -r rank node muster_status <<<"$failed"
        printf 'muster: rank %s on %s ended with status %s\n' "$rank" "${names[node]:-?}" "$muster_status" >&2
    fi
    for ((node = 0; node < muster_nodes; node++)); do
        host=${names[node]:-?} list='' count=$((each - ${said[node]:-0}))
        case " ${muster_failed_nodes:-} " in *" $host "*) : "${states[$host]:=lost}" ;; esac
        for ((rank = node * each; rank < (node + 1) * each; rank++)); do
            [ -n "${ends[rank]:-}" ] || list+=${list:+,}$rank
        done
        [ "$count" -eq 0 ] || [ -z "${begun[node]:-}${states[$host]:-}" ] || muster_tell_unsaid
    done
    [ -z "$muster_unsaid" ] || printf '\nhint: %s\n' \
        'a part of the work may be missing: start it again; with --restart 1 --spares 1 the job does so by itself' >&2
}

# Reports that $count ranks on $host, those of the $list, said nothing.
muster_tell_unsaid() {
    local subject="rank $list"
    [ "$count" -eq 1 ] || subject="ranks $list"
    [ "$count" -lt "$each" ] || [ "$each" -eq 1 ] || subject="ranks $((node * each))-$((node * each + each - 1))"
    # A launcher may have dealt the ranks in another order: which of them was on this host is then not known.
    [ -n "$in_blocks" ] || subject="a rank"
    [ "$muster_of" = ranks ] || subject="the agent"
    subject="how $subject on $host ended is not known${states[$host]:+; Slurm calls $host ${states[$host]}}"
    printf 'muster: %s\n' "$subject" >&2
    [ "$muster_status" -ne 0 ] || muster_status=1
    muster_unsaid=yes
    local lost=${states[$host]:+lost}
    "${muster_tell:-:}" unsaid "$host" "${lost:-heard}" "$subject"
}
