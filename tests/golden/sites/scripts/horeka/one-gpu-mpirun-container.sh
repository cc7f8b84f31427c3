#!/bin/bash
# Written by muster 0.1.0 for the site 'horeka'. It runs with sbatch alone.
#   muster submit -N 1 -g 1 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=16 --gres=gpu:1 --mem-per-gpu=180G
#SBATCH --time=00:30:00 --partition=gpu-h100
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 16
    [ "$muster_nodes" -lt 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and 2 more were decided for fewer than 2 nodes'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 OMPI_MCA_coll_hcoll_enable=0 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=mpirun AGENTS=1 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000
    muster_choose_port
    muster_mpirun_words 0 PYTHONNOUSERSITE OMPI_MCA_coll_hcoll_enable RES_OPTIONS -- --mca coll_hcoll_enable 0
    [ -n "$muster_keeps_logs" ] || muster_keep_report
    muster_watch_hydra "${muster_report:-$muster_logs/ranks.log}"
    muster_to_log mpirun -np "$((muster_nodes * muster_ntasks_per_node))" "${muster_mpirun_ranks[@]}" \
        sh -c "$muster_task" muster apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python train.py
    muster_hydra_status "${muster_report:-$muster_logs/ranks.log}"
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: horeka-one-gpu-mpirun-container.sh
