# Runs the command $@, and ends with its status or by its signal. This shell stays if the ends are counted, or if rank 0
# looks at its own end. The launcher reports a signal, so this shell does not; it notes one that it got itself.
muster_stay() {
    [ -n "$muster_ends${muster_at_end:-}" ] || exec "$@"
    muster_note_begin
    # A number that is free: an MPI may have opened any.
    muster_free=9
    while [ -e "/proc/$$/fd/$muster_free" ] && [ "$muster_free" -gt 2 ]; do muster_free=$((muster_free - 1)); done
    trap '[ -z "$muster_ends" ] || echo >"$muster_ends.signalled"' HUP INT QUIT USR1 USR2 ALRM TERM XCPU
    if [ "$muster_free" -gt 2 ]; then
        eval "exec $muster_free>&2 2>/dev/null"
        (eval "exec 2>&$muster_free $muster_free>&-" && muster_marked "$@")
    else
        (muster_marked "$@")
    fi
    muster_status=$?
    [ "$muster_status" -ne 0 ] || "${muster_at_end:-:}" 2>&"$muster_free"
    muster_note "$muster_rank" "$muster_status"
    "${muster_when_over:-:}" 2>&"$muster_free"
    [ "$muster_status" -gt 128 ] || exit "$muster_status"
    # The core file of the command stays. dash, busybox and bash have this limit.
    # shellcheck disable=SC3045
    ulimit -c 0
    trap - HUP INT QUIT USR1 USR2 ALRM TERM XCPU
    kill -"$((muster_status - 128))" "$$"
    exit "$muster_status"
}
