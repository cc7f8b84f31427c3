# Below is Muster's own text (0.1.0, sha256 DIGEST), explained in docs/explanation/script.md.

muster_common=$(
    cat <<'MUSTER_TEXT'
# (the part stop)

# (the part meeting)
MUSTER_TEXT
)
eval "$muster_common"

# (the part begin)

# (the part run_directory)

# (the part size_granted)

# (the part go_to)

# (the part other_size)

# (the part modules)

# (the part not_there)

# (the part expect)

# (the part port)

# (the part report)

# (the part to_log)

# (the part mpirun)

# (the part hydra_status)

# Unsets variables of outer jobs, launchers and the header that would change the step.
muster_forget() {
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE \
        SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV \
        SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT RANK WORLD_SIZE LOCAL_RANK \
        LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR \
        MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS \
        OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK
}

# What every started process runs before the command: POSIX sh, without Python.
muster_task=$muster_common$'\n\n'$(
    cat <<'MUSTER_TEXT'
# (the part rank_mpi)

# (the part directory)

# (the part python_there)

# (the part size_as_planned)

# (the part gpus)

# (the part cpus)

# (the part threads)

# (the part cpus_asked)

# (the part publish)

# (the part slurm_names)

# (the part jax)

# (the part go_mpi_rank)
MUSTER_TEXT
)

job
