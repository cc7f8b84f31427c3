# The user's command, untouched; only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
exec "$@"
