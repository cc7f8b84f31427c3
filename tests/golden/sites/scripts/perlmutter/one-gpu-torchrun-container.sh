#!/bin/bash
# Written by muster 0.1.0 for the site 'perlmutter'. It runs with sbatch alone.
#   muster submit -A m1234_g -N 1 -g 1 -t 00:30:00 --image site:pytorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=32 --gpus-per-node=1
#SBATCH --account=m1234_g --time=00:30:00 --qos=shared --constraint=gpu
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 32
    [ "$muster_nodes" -lt 2 ] || muster_other_size \
        'FI_MR_CACHE_MONITOR and 5 more were decided for fewer than 2 nodes'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    export PYTHONNOUSERSITE=1 HDF5_USE_FILE_LOCKING=FALSE MPICH_GPU_SUPPORT_ENABLED=0 \
        RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 15 shifter --image=docker:nersc/pytorch:25.02.01 --module=gpu,nccl-plugin \
        --volume=/opt/venv/muster:/opt/muster-ranks/muster --workdir=/home/ada/project \
        sh -c 'export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/opt/muster-ranks; exec "$@"' muster python -I -S -c \
        "$muster_keeper" plain \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: perlmutter-one-gpu-torchrun-container.sh
