# The user's command; only rank 0 reads the standard input. Open MPI ends all ranks when one fails. Hydra waits for the
# others for ever, unless a rank dies of a signal: there this shell stays, says how its command ended, and dies of one.
[ "$muster_rank" -eq 0 ] || exec </dev/null
[ -z "${OMPI_COMM_WORLD_RANK:-}" ] || exec "$@"
"$@"
muster_status=$?
[ "$muster_status" -ne 0 ] || exit 0
printf 'muster: rank %s ended with status %s\n' "$muster_rank" "$muster_status" >&2
kill -KILL "$$"
