# Runs the watch $@. If the ranks hang, the supervisor is told, and decides.
# shellcheck disable=SC2317  # muster_watch_silence starts it
muster_end_hang() {
    local reason
    reason=$(mktemp)
    trap 'kill "$!" 2>/dev/null; rm -f "$reason"' TERM
    "$@" "$reason" &
    wait "$!"
    [ "$?" -ne 3 ] || "${muster_tell:-:}" hang "$(cat "$reason")"
    rm -f "$reason"
}
