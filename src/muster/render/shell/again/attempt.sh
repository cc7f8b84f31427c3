# The ranks may run again: Slurm puts the job back into the queue, or they start again in its allocation. Each attempt
# has its own logs and one line in RUN/attempts: its number, its start time, its nodes, and the nodes of the attempt
# before that are down now; of a job of several links, which job it is.
# shellcheck disable=SC2034,SC2154  # other parts of the script set and use these
muster_attempt() {
    local nodes='' lost=${muster_lost:-} began logs=$muster_run_dir/logs
    printf -v began '%(%s)T' -1
    [ -n "${muster_number:-}" ] || muster_number=$(($({ wc -l <"$muster_run_dir/attempts"; } 2>/dev/null) + 1))
    muster_may_run_again=1
    if [ "$muster_number" -gt 1 ]; then
        nodes=$(tail -n 1 "$muster_run_dir/attempts" 2>/dev/null | cut -f 3)
        if [ -z "${muster_lost+set}" ] && [ -n "$nodes" ]; then
            lost=$(sinfo --noheader --Node --nodes="$nodes" --states=down,fail,no_respond --format=%N 2>/dev/null |
                sort -u | tr '\n' ' ')
        fi
        if [ -n "$muster_keeps_logs" ]; then
            muster_keep_logs_in "$logs/attempt-$muster_number"
            (umask 077 && mkdir -p "$muster_logs") ||
                muster_stop "the directory $muster_logs cannot be made" 'is the disk full?'
            exec >>"$muster_logs/batch.log" 2>&1
        else
            # One file holds the output of all attempts: `muster logs --attempt` divides it here.
            printf 'muster: attempt %s of this job begins here\n' "$muster_number"
            printf 'muster: attempt %s of this job begins here\n' "$muster_number" >&2
        fi
    fi
    (umask 077 && printf '%s\t%s\t%s\t%s\t%s\n' "$muster_number" "$began" "$SLURM_JOB_NODELIST" "${lost% }" \
        "${muster_own:-}" >>"$muster_run_dir/attempts")
}
