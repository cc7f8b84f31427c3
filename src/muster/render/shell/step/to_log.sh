# Runs mpirun, the words $@: the output goes to a file of the run; in a job that keeps none, to that of the script, and
# a report of the errors is kept. Result in $muster_status.
muster_to_log() {
    if [ -n "$muster_keeps_logs" ]; then
        "$@" >"$muster_logs/ranks.log" 2>&1
        muster_status=$?
    else
        "$@" 2> >(tee -i "$muster_report" >&2)
        muster_status=$?
        muster_report_kept "$!"
    fi
}
