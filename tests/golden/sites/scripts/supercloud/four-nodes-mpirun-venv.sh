#!/bin/bash
# Written by muster 0.1.0 for the site 'supercloud'. It runs with sbatch alone.
#   muster submit -N 4 -g 2 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=20
#SBATCH --gres=gpu:volta:2
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --distribution=nopack
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 2 20
    [ "$muster_nodes" -ge 2 ] || muster_other_size \
        'PSM2_GPUDIRECT was decided for 2 nodes or more, and so were 2 more variables'
    command -v module >/dev/null || { . /etc/profile; } || muster_stop \
        'this host has no modules: /etc/profile cannot be read' 'omit --module, or correct the site profile'
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    module load "$(muster_first anaconda/Python-ML-2025a anaconda/Python-ML-2024b anaconda/2023a)" || muster_stop \
        'module load anaconda/Python-ML-2025a or anaconda/Python-ML-2024b or anaconda/2023a failed' \
        "$(muster_versions anaconda)"
    module load "$(muster_first mpi/openmpi-5.0.5 mpi/openmpi-4.1.5)" || muster_stop \
        'module load mpi/openmpi-5.0.5 or mpi/openmpi-4.1.5 failed' "$(muster_versions mpi)"
    module load "$(muster_first cuda/12.2 cuda/11.6)" || muster_stop 'module load cuda/12.2 or cuda/11.6 failed' \
        "$(muster_versions cuda)"
    module load "$(muster_first nccl/2.23.4-cuda12.2 nccl/2.11.4-cuda11.6)" || muster_stop \
        'module load nccl/2.23.4-cuda12.2 or nccl/2.11.4-cuda11.6 failed' "$(muster_versions nccl)"
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' \
        'is it on a file system that the compute nodes see?'
    export PSM2_GPUDIRECT=1 NCCL_NET_GDR_LEVEL=SYS NCCL_P2P_LEVEL=SYS NCCL_NET_GDR_READ=1 \
        RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=mpirun AGENTS=1 GPUS=2 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PYTHON=/home/ada/env/bin/python PORTS=20000-31999
    muster_choose_port
    muster_mpirun_words 1 PSM2_GPUDIRECT NCCL_NET_GDR_LEVEL NCCL_P2P_LEVEL NCCL_NET_GDR_READ RES_OPTIONS -- --bind-to \
        socket --map-by socket
    mpirun -np "$((muster_nodes * muster_ntasks_per_node))" "${muster_mpirun_ranks[@]}" \
        sh -c "$muster_task" muster python train.py >"$muster_logs/ranks.log" 2>&1
    muster_status=$?
    muster_hydra_status "$muster_logs/ranks.log"
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: snellius-one-gpu-mpirun-venv.sh
