# Watches the job beside its ranks: when their logs have not grown for half of $1 seconds, Muster's Python, $2, looks at
# the ranks, and once more at the end of that time. It reports a hang in the log and in RUN/hang. With "end" as $3 the
# attempt then ends, and the ranks start again if they may. A job that writes is never looked at.
# shellcheck disable=SC2154  # of the script
muster_watch_silence() {
    muster_found=$muster_run_dir
    [ -d "$muster_found" ] || muster_found=$(mktemp -d) || return 0
    rm -f "$muster_found/hang"
    if [ ! -x "$2" ]; then
        printf 'muster: note: %s\n' "this node does not see $2: a hang of the ranks is not noticed" >&2
        return
    fi
    muster_silence "$$" "$@" </dev/null &
    muster_watcher=$!
}

# Ends the watch.
muster_end_watch() {
    [ -z "${muster_watcher:-}" ] || { kill "$muster_watcher" && wait "$muster_watcher"; } 2>/dev/null
    rm -f "$muster_found/silence"
    [ "$muster_found" = "$muster_run_dir" ] || rm -rf "$muster_found"
}

# The watch itself. $1: the script's pid; the others as above. It starts no process but stat while the logs grow.
muster_silence() {
    trap - TERM INT HUP
    local after=$2 python=$3 end=${4:-} size='' before='' since=$SECONDS looked='' pause look='' pipe
    trap '[ -z "$look" ] || kill "$look" 2>/dev/null; exit' TERM
    pause=$((after / 20 + 1))
    [ "$pause" -le 10 ] || pause=10
    exec {pipe}<> <(:)
    while kill -0 "$1" 2>/dev/null; do
        read -rt "$pause" -u "$pipe"
        size=$(stat -c %s "$muster_logs"/*.log 2>/dev/null)
        if [ "$size" != "$before" ]; then
            before=$size since=$SECONDS
            [ -z "$looked" ] || { looked='' && rm -f "$muster_found/hang"; }
            continue
        fi
        case $looked in
        '') [ $((SECONDS - since)) -lt $((after / 2)) ] || muster_look first ;;
        first) [ $((SECONDS - since)) -lt "$after" ] || muster_look second ;;
        esac
    done
}

# Looks at the ranks, for the first time or for the second: if a rank goes on, the time begins again.
muster_look() {
    "$python" -I -m muster.cli.silence "$1" "$muster_job" "$SLURM_JOB_NODELIST" "$muster_found" "$after" &
    look=$!
    wait "$look"
    case $? in
    3) looked=$1 ;; # no rank goes on
    *) since=$SECONDS looked= ;;
    esac
    look=
    [ "$looked$end" != secondend ] || muster_end_attempt "$(cat "$muster_found/hang")"
    before=$(stat -c %s "$muster_logs"/*.log 2>/dev/null) # the report itself is not a sign of life
}
