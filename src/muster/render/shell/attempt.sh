# A job that is put back into the queue runs again: each run has its own logs, and one line in RUN/attempts: its number,
# when it began, its nodes, and those of the run before that are lost.
# shellcheck disable=SC2034,SC2154  # of the script, and for it
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
