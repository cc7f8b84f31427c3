# Sets the threads of the rank.
muster_find_threads "$muster_local_size" "${MUSTER_CPUS:-0}"
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS="$muster_threads"
