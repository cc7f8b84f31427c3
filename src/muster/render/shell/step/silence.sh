# Watches the job by Muster's own Python; reports a hang in the log and in RUN/hang. then=restart: the ranks start
# again.
muster_watch_silence() {
    local muster_seconds muster_python muster_folder='' muster_then=
    muster_take 'muster_watch_silence: seconds python folder then' "$@"
    if [ ! -x "$muster_python" ] || [ ! -e "${muster_folder:-/}" ]; then
        printf 'muster: note: this node does not see %s: a hang of the ranks is not noticed\n' \
            "${muster_folder:-$muster_python}" >&2
        return
    fi
    set -- "$muster_python" -I ${muster_folder:+"$muster_folder"} -m muster.cli.silence "$$" "$muster_job" \
        "$SLURM_JOB_NODELIST" "$muster_run_dir" "$muster_seconds"
    ${muster_then:+muster_end_hang} "$@" </dev/null &
    muster_watcher=$!
}

# Ends the watch.
muster_end_watch() {
    [ -z "${muster_watcher:-}" ] || { kill "$muster_watcher" && wait "$muster_watcher"; } 2>/dev/null
}
