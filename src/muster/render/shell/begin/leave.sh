# Warns, at the end of the job, that its disk is full: lines of the output may be missing, and no launcher says so.
muster_leave_run_directory() {
    { printf '%16384s' '' >>"$muster_room"; } 2>/dev/null
    local has_room=$?
    rm -f "$muster_room"
    [ "$has_room" -eq 0 ] || printf 'muster: warning: the disk of %s takes no more (%s): %s\n' \
        "$muster_logs" 'full, over its quota, or away' 'the end of the output may be missing' >&2
}
