# Slurm may put the job back into the queue and run it again. Each attempt has its own logs and one line in
# RUN/attempts: its number, its start time, its nodes, and the nodes of the attempt before that are down now.
# shellcheck disable=SC2034,SC2154  # other parts of the script set and use these
muster_attempt() {
    local number=$((${SLURM_RESTART_COUNT:-0} + 1)) nodes='' lost='' began
    printf -v began '%(%s)T' -1
    muster_may_run_again=1
    if [ "$number" -gt 1 ]; then
        nodes=$(tail -n 1 "$muster_run_dir/attempts" 2>/dev/null | cut -f 3)
        [ -z "$nodes" ] || lost=$(sinfo --noheader --Node --nodes="$nodes" --states=down,fail,no_respond --format=%N 2>/dev/null |
            sort -u | tr '\n' ' ')
        if [ "$muster_output" = "$muster_run_dir/logs/batch.log" ]; then
            muster_logs=$muster_run_dir/logs/attempt-$number
            (umask 077 && mkdir -p "$muster_logs") || muster_stop "the directory $muster_logs cannot be made" 'is the disk full?'
            exec >>"$muster_logs/batch.log" 2>&1
        fi
    fi
    (umask 077 && printf '%s\t%s\t%s\t%s\n' "$number" "$began" "$SLURM_JOB_NODELIST" "${lost% }" >>"$muster_run_dir/attempts")
}
