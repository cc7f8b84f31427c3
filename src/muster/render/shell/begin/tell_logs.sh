# Tells where the ranks write, in a job whose own output goes elsewhere: `muster submit` has not queued it.
muster_tell_logs() {
    [ -n "$muster_keeps_logs" ] || printf 'muster: the output of the ranks lies below %s\n' "$muster_run_dir"
}
