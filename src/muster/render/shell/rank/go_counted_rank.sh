# Runs the user's command, unchanged. Only rank 0 reads the standard input.
[ "$muster_rank" -eq 0 ] || exec </dev/null
muster_stay "$@"
