# Watches the job beside its ranks, by Muster's own python: where nothing is written for so many seconds and no rank goes on,
# it reports a hang in the log and in RUN/hang. then=restart: the ranks may start again.
muster_watch_silence() {
    local muster_seconds muster_python muster_then=
    muster_take 'muster_watch_silence: seconds python then' "$@"
    if [ ! -x "$muster_python" ]; then
        printf 'muster: note: %s\n' "this node does not see $muster_python: a hang of the ranks is not noticed" >&2
        return
    fi
    set -- "$muster_python" -I -m muster.cli.silence "$$" "$muster_job" "$SLURM_JOB_NODELIST" "$muster_run_dir" "$muster_seconds"
    ${muster_then:+muster_end_hang} "$@" </dev/null &
    muster_watcher=$!
}

# Ends the watch.
muster_end_watch() {
    [ -z "${muster_watcher:-}" ] || { kill "$muster_watcher" && wait "$muster_watcher"; } 2>/dev/null
}
