# The user's command; only rank 0 reads the standard input. This shell stays, and says how a command ended that failed:
# Open MPI's own report is lost in two of three batch jobs, and Hydra's names no rank. Open MPI ends all ranks then;
# Hydra waits for the others for ever, unless a rank dies of a signal.
[ "$muster_rank" -eq 0 ] || exec </dev/null
"$@"
muster_status=$?
[ "$muster_status" -ne 0 ] || exit 0
read -r muster_here </proc/sys/kernel/hostname
printf 'muster: rank %s on %s ended with status %s\n' "$muster_rank" "${SLURMD_NODENAME:-$muster_here}" "$muster_status" >&2
[ -z "${OMPI_COMM_WORLD_RANK:-}" ] || exit "$muster_status"
kill -KILL "$$"
