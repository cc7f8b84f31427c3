# Runs the step $@. Where the run keeps no files, a report of the errors is kept.
muster_reported() {
    if [ -n "$muster_keeps_logs" ]; then
        "$@"
        return
    fi
    muster_keep_report
    "$@" 2> >(tee -i "$muster_report" >&2)
    muster_report_kept "$!"
}
