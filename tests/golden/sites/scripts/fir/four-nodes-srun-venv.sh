#!/bin/bash
# Written by muster 0.1.0 for the site 'fir'. It runs with sbatch alone.
#   muster submit -A def-someuser -N 4 -g 4 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=h100:4
#SBATCH --account=def-someuser
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --mem=1152000M
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 12
    command -v module >/dev/null || { . /etc/profile; } || muster_stop \
        'this host has no modules: /etc/profile cannot be read' 'omit --module, or correct the site profile'
    module load "$(muster_first StdEnv/2023 StdEnv)" || muster_stop 'module load StdEnv/2023 or StdEnv failed' \
        "$(muster_versions StdEnv)"
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' \
        'is it on a file system that the compute nodes see?'
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PYTHON=/home/ada/env/bin/python PORTS=20000-31999
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label --output="$muster_logs"/%N.log --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: fir-one-gpu-srun-venv.sh
