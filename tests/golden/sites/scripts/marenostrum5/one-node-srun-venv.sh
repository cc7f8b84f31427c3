#!/bin/bash
# Written by muster 0.1.0 for the site 'marenostrum5'. It runs with sbatch alone.
#   muster submit -A bsc98 -q acc_ehpc -N 1 -g 4 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:4
#SBATCH --account=bsc98
#SBATCH --qos=acc_ehpc
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --hint=nomultithread
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
    muster_ntasks_per_node=${SLURM_NTASKS_PER_NODE:-4}
    muster_cpus_per_task=${SLURM_CPUS_PER_TASK:-20}
    [ "$muster_nodes" -le 100 ] || muster_stop 'the QOS acc_ehpc takes jobs of at most 100 nodes' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -lt 2 ] || muster_stop 'NCCL_SOCKET_IFNAME was decided for fewer than 2 nodes' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -lt 2 ] || muster_stop 'NCCL_IB_HCA was decided for fewer than 2 nodes' 'write the script anew for this size: muster plan'
    [ "$muster_nodes" -lt 2 ] || muster_stop 'NCCL_NET was decided for fewer than 2 nodes' 'write the script anew for this size: muster plan'

    # What an outer job, another launcher or the header left behind, and our own flags say better.
    unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_GPUS_PER_TASK SLURM_HINT SLURM_EXPORT_ENV SLURM_MPI_TYPE SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_KILL_BAD_EXIT
    unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS JAX_COORDINATOR_ADDRESS OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMIX_RANK
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' 'is it on a file system that the compute nodes see?'
    export HF_HUB_OFFLINE=1
    export TRANSFORMERS_OFFLINE=1
    export HF_DATASETS_OFFLINE=1
    export RES_OPTIONS='timeout:1 attempts:3'
    # What the prologue of every rank compares with what it finds.
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir" MUSTER_LAUNCHER=srun MUSTER_AGENTS=0 MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node" MUSTER_GPUS=4 MUSTER_CPUS="$muster_cpus_per_task" MUSTER_VISIBILITY=all MUSTER_GRACE=10 MUSTER_PORT_LOW=20000 MUSTER_PORT_COUNT=12000 MUSTER_PYTHON=/home/ada/env/bin/python
    muster_choose_port

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
        --hint=nomultithread \
        --input=0 \
        sh -c "$muster_task" muster python train.py
    exit "${muster_interrupted:-$muster_status}"
}

# The text below is shared: clariden-one-gpu-srun-venv.sh
