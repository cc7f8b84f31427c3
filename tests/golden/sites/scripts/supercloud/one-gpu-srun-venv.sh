#!/bin/bash
# Written by muster 0.1.0 for the site 'supercloud'. It runs with sbatch alone.
#   muster submit -N 1 -g 1 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=20 --gres=gpu:volta:1
#SBATCH --time=00:30:00
#SBATCH --export=NONE --no-requeue
#SBATCH --distribution=nopack
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 20
    [ "$muster_nodes" -lt 2 ] || muster_other_size 'PSM2_GPUDIRECT and 2 more were decided for fewer than 2 nodes'
    muster_modules /etc/profile
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    muster_load 'anaconda/Python-ML-2025a|anaconda/Python-ML-2024b|anaconda/2023a' \
        'mpi/openmpi-5.0.5|mpi/openmpi-4.1.5' 'cuda/12.2|cuda/11.6' 'nccl/2.23.4-cuda12.2|nccl/2.11.4-cuda11.6'
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" "${muster_output_flags[@]}" --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: jean-zay-one-gpu-srun-venv.sh
