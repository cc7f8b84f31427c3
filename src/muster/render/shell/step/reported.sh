# Runs srun, the words $@, as a step. Where the run keeps no files, a report of the errors is kept.
muster_step_reported() {
    if [ -n "$muster_keeps_logs" ]; then
        muster_step "$@"
        return
    fi
    muster_keep_report
    muster_step "$@" 2> >(tee -i "$muster_report" >&2)
    muster_report_kept "$!"
}
