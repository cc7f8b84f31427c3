#!/bin/bash
# Written by muster 0.1.0 for the site 'olivia'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 1 -g 4 -t 00:30:00 --image site:pytorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=4 --cpus-per-task=72 --gpus-per-node=4 --mem=440G
#SBATCH --account=ACCOUNT --time=00:30:00 --partition=accel
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 72
    [ "$muster_nodes" -le 8 ] || muster_other_size 'the partition accel takes jobs of at most 8 nodes'
    [ "$muster_nodes" -lt 2 ] || muster_other_size 'NCCL_PROTO and 12 more were decided for fewer than 2 nodes'
    muster_modules /etc/profile
    muster_load NRIS/GPU 'NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0|NCCL'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 http_proxy=http://10.63.2.48:3128/ HTTP_PROXY=http://10.63.2.48:3128/ \
        https_proxy=http://10.63.2.48:3128/ HTTPS_PROXY=http://10.63.2.48:3128/ no_proxy=localhost,127.0.0.1,::1 \
        NO_PROXY=localhost,127.0.0.1,::1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 19 apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project \
        /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: olivia-one-gpu-torchrun-container.sh
