# What a launcher reports passes through a file, since no file of the run holds it.
muster_keep_report() {
    muster_report=$(mktemp) && trap 'rm -f "$muster_report"' EXIT
}

# What outlives its launcher, a process that left its rank's group, holds our pipe ($1): it is not waited for long.
muster_report_kept() {
    for _ in {1..20}; do kill -0 "$1" 2>/dev/null && sleep 0.05; done
}
