# Runs the rows of this task beside each other: at_once at most, of rows in all, each with so many ranks. A row that
# fails does not end its neighbours. Result in $muster_status: that of the first row that failed.
muster_run_rows() {
    local row pid status pids=() muster_at_once muster_rows muster_ranks
    muster_take 'muster_run_rows: at_once rows ranks' "$@"
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] ||
        muster_stop 'the job is not a task of the array' "queue it with --array=1-$muster_rows:$muster_at_once"
    muster_ntasks_per_node=$muster_ranks
    muster_share_cpus "$((muster_at_once * muster_ranks))"
    for ((row = SLURM_ARRAY_TASK_ID; row < SLURM_ARRAY_TASK_ID + muster_at_once && row <= muster_rows; row++)); do
        muster_run_row "$row" &
        pids+=("$!")
    done
    muster_status=0
    for pid in "${pids[@]}"; do
        wait "$pid"
        status=$?
        [ "$muster_status" -ne 0 ] || muster_status=$status
    done
}

# Runs row $1 in a run directory of its own, beside that of the task, and leaves its exit status there.
muster_run_row() {
    local status
    muster_slot=$(($1 - SLURM_ARRAY_TASK_ID))
    muster_run_dir=${muster_run_dir%/task-*}/task-$1
    muster_keep_logs_in "$muster_run_dir/logs"
    (umask 077 && mkdir -p "$muster_logs") || return 1
    rm -f "$muster_run_dir/status"
    (row_job "$1") >>"$muster_logs/batch.log" 2>&1 </dev/null
    status=$?
    printf '%s\n' "$status" >"$muster_run_dir/.status" && mv "$muster_run_dir/.status" "$muster_run_dir/status"
    return "$status"
}

# Divides the CPUs of the job between its $1 ranks, if their number was not asked for. Where a core has two threads, a
# share is whole cores: Slurm would round it up, and the last row would wait for another one to end.
muster_share_cpus() {
    local threads=0
    [ "${muster_cpus_per_task:-0}" -eq 0 ] || return 0
    muster_cpus_per_task=$((${SLURM_CPUS_ON_NODE:-$1} / $1))
    { read -r threads </sys/devices/system/cpu/smt/active; } 2>/dev/null
    [ "$threads" != 1 ] || [ "$muster_cpus_per_task" -lt 2 ] || muster_cpus_per_task=$((muster_cpus_per_task / 2 * 2))
    [ "$muster_cpus_per_task" -ge 1 ] || muster_cpus_per_task=1
}
