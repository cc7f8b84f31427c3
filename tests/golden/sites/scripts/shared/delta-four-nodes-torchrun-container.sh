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

# (the part expect)

# (the part port)

# (the part report)

# (the part open_errors)

# (the part reported)

# (the part watch)

# (the part torchrun_status)

# (the part unpacked)

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
# (the part rank_slurm)

# (the part directory)

# (the part agent)

# The first word of the command is a number.
muster_counted=1

# (the part image_node)

# (the part image)

# (the part image_unpack)

# (the part gpu_kind)

# (the part stack)

# (the part image_asks)

muster_image_needs apptainer /images/train.sif
muster_image_opens apptainer APPTAINER /images/train.sif
muster_image_has_sh apptainer /images/train.sif APPTAINER
muster_image_made_for apptainer /images/train.sif APPTAINER cuda
muster_image_sees /tmp /home/ada /opt/venv/muster
muster_image_takes APPTAINER /tmp /home/ada
muster_image_gets APPTAINERENV_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS MUSTER_LOCAL_NNODES MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_NODES MUSTER_WIREUP MUSTER_GRACE MUSTER_CPUS MUSTER_OMP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK TORCH_ELASTIC_SHUTDOWN_TIMEOUT TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE PYTHONNOUSERSITE NCCL_SOCKET_IFNAME RES_OPTIONS
muster_image_library APPTAINERENV_PYTHONPATH /opt/muster-ranks
eval 'eval "$muster_image_words"'

# (the part torchrun_words)

# (the part go_agent)
MUSTER_TEXT
)
muster_keeper=$(
    cat <<'MUSTER_TEXT'
# (the part agent_keeper.py)
MUSTER_TEXT
)
muster_worker=$(
    cat <<'MUSTER_TEXT'
# (the part cpus)

# (the part slurm_names)

# (the part no_mpi)

# (the part jax_beside_agent)

# (the part jax)

# (the part worker)
MUSTER_TEXT
)

job
