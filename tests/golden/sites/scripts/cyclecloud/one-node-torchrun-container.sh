#!/bin/bash
# Written by muster 0.1.0 for the site 'cyclecloud'. It runs with sbatch alone.
#   muster submit -N 1 -g 8 -t 00:30:00 --image docker://quay.io/ada/torch:2 -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=8 --cpus-per-task=12 --gpus-per-node=8 --exclusive --mem=0
#SBATCH --time=00:30:00 --partition=gpu
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 8 12
    [ "$muster_nodes" -lt 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and 7 more were decided for fewer than 2 nodes'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    export PYTHONNOUSERSITE=1 CUDA_DEVICE_ORDER=PCI_BUS_ID NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml \
        NCCL_IGNORE_CPU_AFFINITY=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_define
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" \
        '--container-image=quay.io#ada/torch:2' \
        --container-mounts=/tmp:/tmp,/home/ada:/home/ada,/opt/microsoft:/opt/microsoft,\
/opt/venv/muster:/opt/muster-ranks/muster:ro,"$muster_run_dir:$muster_run_dir" \
        --container-workdir=/home/ada/project \
        --container-env=PYTHONNOUSERSITE,CUDA_DEVICE_ORDER,NCCL_TOPO_FILE,NCCL_IGNORE_CPU_AFFINITY,RES_OPTIONS \
        --input=all \
        sh -c "$muster_task" muster 6 python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: hyperpod-one-node-torchrun-container.sh
