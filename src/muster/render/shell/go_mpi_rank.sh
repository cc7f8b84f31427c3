# Runs the user's command. Only rank 0 reads the standard input. This shell stays and reports a failed command: Open
# MPI's own report is lost in two of three batch jobs, and Hydra's report names no rank. After a failure the script ends
# the other ranks, where it can: the shells of these get SIGTERM first, and report nothing. Elsewhere Open MPI ends all
# ranks; Hydra waits for them for ever, unless a rank dies of a signal.
[ "$muster_rank" -eq 0 ] || exec </dev/null
[ -z "${MUSTER_ENDS_RANKS:-}" ] || trap 'muster_told=1' TERM
exec 3>&2 2>/dev/null # sh itself would write "Terminated"
(exec 2>&3 3>&- && exec "$@")
muster_status=$?
exec 2>&3 3>&-
[ -z "${muster_told:-}" ] || exit "$muster_status"
if [ "$muster_status" -eq 0 ]; then
    "${muster_at_end:-:}"
    exit 0
fi
read -r muster_here </proc/sys/kernel/hostname
printf 'muster: rank %s on %s ended with status %s\n' "$muster_rank" "${SLURMD_NODENAME:-$muster_here}" "$muster_status" >&2
[ -z "${OMPI_COMM_WORLD_RANK:-}${MUSTER_ENDS_RANKS:-}" ] || exit "$muster_status"
kill -KILL "$$"
