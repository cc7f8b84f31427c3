# Sets the size that Slurm granted, so that `sbatch -N 8 FILE` works; where Slurm does not name it, the planned size.
muster_take_size() {
    muster_take 'muster_begin: dir tasks cpus' "$@"
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-$muster_tasks}
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-${muster_cpus:-0}}
}
