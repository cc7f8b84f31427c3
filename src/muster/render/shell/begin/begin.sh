# Begins the job: id, directory and size. dir: the working directory; tasks, cpus: planned ranks per node, CPUs per
# rank. The text below looks at each status itself: a set -e that was added to the header ends here.
muster_begin() {
    set +eu +o pipefail
    # These end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT && trap 'muster_interrupted=143' TERM && trap 'muster_interrupted=129' HUP
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'submit it with sbatch, or run it in salloc'
    muster_job=$SLURM_JOB_ID
    muster_take_size "$@"
    muster_find_run_directory
    muster_go_to "$muster_dir"
    muster_forget
}

# Ends the job with the exit status of its ranks.
muster_finish() {
    muster_leave_run_directory
    exit "${muster_interrupted:-$muster_status}"
}
