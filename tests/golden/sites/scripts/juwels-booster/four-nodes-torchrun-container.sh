#!/bin/bash
# Written by muster 0.1.0 for the site 'juwels-booster'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 4 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=12 --gres=gpu:4 --threads-per-core=1
#SBATCH --account=ACCOUNT --time=00:30:00 --partition=booster
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 12
    [ "$muster_nodes" -le 384 ] || muster_other_size 'the partition booster takes jobs of at most 384 nodes'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and 3 more were decided for 2 nodes or more'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_SOCKET_IFNAME=ib0 GLOO_SOCKET_IFNAME=ib0 \
        NCCL_SOCKET_FAMILY=AF_INET NCCL_IB_TIMEOUT=18 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000 HOST_SUFFIX=i
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" \
        --threads-per-core=1 --input=all \
        sh -c "$muster_task" muster 19 apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python -I -S -c \
        "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: juwels-booster-four-nodes-torchrun-container.sh
