# Sets the size that was asked for, inside an allocation that may be larger.
muster_take_size() {
    muster_take 'muster_begin: dir tasks cpus nodes' "$@"
    muster_ntasks_per_node=$muster_tasks muster_cpus_per_task=${muster_cpus:-0}
    [ -n "${SLURM_JOB_NUM_NODES:-}" ] || muster_stop \
        "SLURM_JOB_ID=$SLURM_JOB_ID is set, but this shell was not started in that job" 'unset SLURM_JOB_ID'
    [ "$muster_nodes" -le "$SLURM_JOB_NUM_NODES" ] || muster_stop \
        "$muster_nodes nodes are asked for, but the allocation has $SLURM_JOB_NUM_NODES" \
        'ask for fewer nodes, or leave the allocation and let Muster ask for a new one'
}
