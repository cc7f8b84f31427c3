#!/bin/bash
# Written by muster 0.1.0 for the site 'juwels-booster'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 4 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gres=gpu:4
#SBATCH --account=ACCOUNT
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --partition=booster
#SBATCH --threads-per-core=1
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 12
    [ "$muster_nodes" -le 384 ] || muster_other_size 'the partition booster takes jobs of at most 384 nodes'
    [ "$muster_nodes" -ge 2 ] || muster_other_size \
        'NCCL_SOCKET_IFNAME was decided for 2 nodes or more, and so were 3 more variables'
    command -v module >/dev/null || { . /etc/profile; } || muster_stop \
        'this host has no modules: /etc/profile cannot be read' 'omit --module, or correct the site profile'
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    module load "$(muster_first Stages/2026 Stages/2025 Stages/2024)" || muster_stop \
        'module load Stages/2026 or Stages/2025 or Stages/2024 failed' "$(muster_versions Stages)"
    muster_load GCC OpenMPI CUDA cuDNN MPI-settings/CUDA
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' \
        'is it on a file system that the compute nodes see?'
    export CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_SOCKET_IFNAME=ib0 GLOO_SOCKET_IFNAME=ib0 NCCL_SOCKET_FAMILY=AF_INET \
        NCCL_IB_TIMEOUT=18
    unset PYTHONPATH
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 HOST_SUFFIX=i \
        PYTHON=/home/ada/env/bin/python PORTS=20000-31999
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" --output="$muster_logs"/%N.log \
        --threads-per-core=1 --input=all \
        sh -c "$muster_task" muster 6 python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status "${muster_logs:-$muster_run_dir/logs}"/*.log
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: jean-zay-one-gpu-torchrun-venv.sh
