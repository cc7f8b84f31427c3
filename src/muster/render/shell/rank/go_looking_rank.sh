# Becomes the user's command; only rank 0 reads the standard input. The source does not show whether the ranks connect,
# so the shell of rank 0 stays, looks when the command has ended well, and ends with its status or signal.
[ -n "$muster_at_end" ] || exec "$@" </dev/null
trap : HUP INT QUIT USR1 USR2 TERM
# srun reports how the command ended: this shell is silent about it.
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
muster_status=$?
[ "$muster_status" -ne 0 ] || "$muster_at_end" 2>&3
[ "$muster_status" -gt 128 ] || exit "$muster_status"
trap - HUP INT QUIT USR1 USR2 TERM
kill -"$((muster_status - 128))" "$$"
exit "$muster_status"
