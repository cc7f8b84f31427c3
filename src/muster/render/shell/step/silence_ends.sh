# Runs the watch $@. If the ranks hang, the attempt ends, and they start again if they may.
# shellcheck disable=SC2317  # muster_watch_silence starts it
muster_end_hang() {
    trap 'kill "$!" 2>/dev/null' TERM
    "$@" "$muster_reason" &
    wait "$!"
    [ "$?" -ne 3 ] || muster_end_attempt "$(cat "$muster_reason")"
}
