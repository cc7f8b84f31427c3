# The output goes to a file of the user's: the job's script lies in its run directory, unless it was queued by hand.
# Result in $muster_moved_run.
muster_find_moved_run() {
    local place
    [ -n "${SLURM_JOB_ID:-}" ] || return 0
    place=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Command=\(.*\)\/job\.sh$/\1/p' | head -n 1)
    [ -n "$place" ] && [ -f "$place/plan.json" ] || return 0
    [ ! -f "$place/job_id" ] || [ "$(<"$place/job_id")" = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" ] || return 0
    muster_moved_run=$place${SLURM_ARRAY_TASK_ID:+/task-$SLURM_ARRAY_TASK_ID}
}
