#!/bin/bash
# Written by muster 0.1.0 for the site 'frontier'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 8 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --account=ACCOUNT
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --partition=batch
#SBATCH --network=disable_rdzv_get
#SBATCH --comment=muster:DIGEST

# shellcheck disable=SC2016  # words and values of the user's reach the ranks as they are

# The job. What it calls stands below.
muster_main() {
    # Ctrl-C, SIGTERM or a hang-up ends the ranks; whatever the launcher then says, this is what happened.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    # This job: its id, its directory, its size as it was granted.
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'queue this file with sbatch, or run it inside salloc'
    muster_job=$SLURM_JOB_ID
    # submit points the output to RUN/logs/batch.log, and that is how the job finds its directory.
    muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)
    muster_run_dir=${muster_output%/logs/batch.log}
    [ "$muster_run_dir" != "$muster_output" ] || muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
    (umask 077 && mkdir -p "$muster_run_dir/logs") || muster_stop "the directory $muster_run_dir/logs cannot be made" 'submit from a directory that the compute nodes can write'
    muster_logs=$muster_run_dir/logs
    cd /home/ada/project || muster_stop 'the working directory /home/ada/project is not there' 'use a file system that the compute nodes see, or --chdir'
    muster_nodes=$SLURM_JOB_NUM_NODES
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-8}
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-7}
    [ "$muster_ntasks_per_node" -eq 8 ] || muster_stop 'the CPU masks are for 8 ranks on each node' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'NCCL_SOCKET_IFNAME was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'NCCL_CROSS_NIC was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'NCCL_NET_GDR_LEVEL was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'HSA_FORCE_FINE_GRAIN_PCIE was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_MR_CACHE_MONITOR was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_DISABLE_HOST_REGISTER was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_DEFAULT_CQ_SIZE was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_DEFAULT_TX_SIZE was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_RDZV_PROTO was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_RX_MATCH_MODE was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_RDZV_EAGER_SIZE was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_RDZV_GET_MIN was decided for 2 nodes or more' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -ge 2 ] || muster_stop 'FI_CXI_RDZV_THRESHOLD was decided for 2 nodes or more' 'write the script anew for this size: muster plan'

    # What an outer job, another launcher or the header left behind, and our own flags say better.
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT
    unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK
    command -v module >/dev/null || { . /etc/profile; } || muster_stop 'this host has no modules: /etc/profile cannot be read' 'leave --module away, or correct the site profile'
    module load "$(muster_first PrgEnv-gnu/8.7.0 PrgEnv-gnu)" || muster_stop 'module load PrgEnv-gnu/8.7.0 or PrgEnv-gnu failed' "$(muster_versions PrgEnv-gnu)"
    module load "$(muster_first cpe/26.03 cpe)" || muster_stop 'module load cpe/26.03 or cpe failed' "$(muster_versions cpe)"
    module load "$(muster_first miniforge3/23.11.0-0 miniforge3)" || muster_stop 'module load miniforge3/23.11.0-0 or miniforge3 failed' "$(muster_versions miniforge3)"
    module load "$(muster_first rocm/7.1.1 rocm)" || muster_stop 'module load rocm/7.1.1 or rocm failed' "$(muster_versions rocm)"
    module load rccl-net-plugin || muster_stop 'module load rccl-net-plugin failed' "$(muster_versions rccl-net-plugin)"
    module load craype-accel-amd-gfx90a || muster_stop 'module load craype-accel-amd-gfx90a failed' "$(muster_versions craype-accel-amd-gfx90a)"
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' 'is it on a file system that the compute nodes see?'
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
    export NCCL_CROSS_NIC=1
    export NCCL_NET_GDR_LEVEL=PHB
    export HSA_FORCE_FINE_GRAIN_PCIE=1
    export FI_MR_CACHE_MONITOR=kdreg2
    export FI_CXI_DISABLE_HOST_REGISTER=1
    export FI_CXI_DEFAULT_CQ_SIZE=131072
    export FI_CXI_DEFAULT_TX_SIZE=2048
    export FI_CXI_RDZV_PROTO=alt_read
    export FI_CXI_RX_MATCH_MODE=hybrid
    export FI_CXI_RDZV_EAGER_SIZE=0
    export FI_CXI_RDZV_GET_MIN=0
    export FI_CXI_RDZV_THRESHOLD=0
    export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job"
    export MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job"
    export http_proxy=http://proxy.ccs.ornl.gov:3128/
    export HTTP_PROXY=http://proxy.ccs.ornl.gov:3128/
    export https_proxy=http://proxy.ccs.ornl.gov:3128/
    export HTTPS_PROXY=http://proxy.ccs.ornl.gov:3128/
    export all_proxy=socks5://proxy.ccs.ornl.gov:3128/
    export ALL_PROXY=socks5://proxy.ccs.ornl.gov:3128/
    export no_proxy='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov'
    export NO_PROXY='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov'
    export RES_OPTIONS='timeout:1 attempts:3'
    # What the prologue of every rank compares with what it finds.
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir" MUSTER_LAUNCHER=srun MUSTER_AGENTS=0 MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node" MUSTER_GPUS=8 MUSTER_CPUS="$muster_cpus_per_task" MUSTER_VISIBILITY=all MUSTER_GRACE=10 MUSTER_PORT_LOW=20000 MUSTER_PORT_COUNT=12000 MUSTER_PYTHON=/home/ada/env/bin/python
    muster_choose_port
    muster_choose_address numeric

    # The ranks.
    muster_step srun \
        --nodes="$muster_nodes" \
        --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" \
        --kill-on-bad-exit=0 \
        --export=ALL \
        --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" \
        --label \
        --output="$muster_logs"/%N.log \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
        --input=0 \
        sh -c "$muster_task" muster python train.py
    exit "${muster_interrupted:-$muster_status}"
}

# The text below is shared: frontier-one-gpu-srun-venv.sh
