# Sets the size that was asked for, inside an allocation that may be larger.
muster_take_size() {
    muster_ntasks_per_node=$1 muster_cpus_per_task=$2 muster_nodes=$3
    [ "$muster_nodes" -le "$SLURM_JOB_NUM_NODES" ] || muster_stop \
        "$muster_nodes nodes are asked for, but the allocation has $SLURM_JOB_NUM_NODES" \
        'ask for fewer nodes, or leave the allocation and let Muster ask for a new one'
}
