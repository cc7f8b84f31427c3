# Makes a temporary file for the launcher's report, where no file of the run holds it.
muster_keep_report() {
    muster_report=$(mktemp) && trap 'rm -f "$muster_report"' EXIT
}

# Waits at most one second for the process $1 that keeps the report: a process that left its rank's group may hold the
# pipe open after the launcher has ended.
muster_report_kept() {
    for _ in {1..20}; do kill -0 "$1" 2>/dev/null && sleep 0.05; done
}
