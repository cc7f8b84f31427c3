# Sets the size that Slurm granted, so that `sbatch -N 8 FILE` works with another number of nodes. Where Slurm does not
# name it, the planned size is used.
muster_take_size() {
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-$1}
    # shellcheck disable=SC2034  # the job uses it, if CPUs were asked for
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-$2}
}
