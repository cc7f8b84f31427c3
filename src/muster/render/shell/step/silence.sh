# Watches the job beside its ranks, by Muster's Python, $2: where nothing is written for $1 seconds and no rank goes on,
# it reports a hang in the log and in RUN/hang.
muster_watch_silence() {
    if [ ! -x "$2" ]; then
        printf 'muster: note: %s\n' "this node does not see $2: a hang of the ranks is not noticed" >&2
        return
    fi
    "${@:3}" "$2" -I -m muster.cli.silence "$$" "$muster_job" "$SLURM_JOB_NODELIST" "$muster_run_dir" "$1" </dev/null &
    muster_watcher=$!
}

# Ends the watch.
muster_end_watch() {
    [ -z "${muster_watcher:-}" ] || { kill "$muster_watcher" && wait "$muster_watcher"; } 2>/dev/null
}
