# A rank of torchrun's: the agent has said who it is; its threads and its standard input are set here.
if [ "${MUSTER_OMP:-}" = own ]; then
    muster_own_mask
    muster_threads_of_mask "$muster_cpus" "$LOCAL_WORLD_SIZE" "${MUSTER_CPUS:-0}"
    export OMP_NUM_THREADS="$muster_threads"
fi
export NODE_RANK="$GROUP_RANK"
[ "$RANK" -eq 0 ] || exec </dev/null
exec "$@"
