#!/bin/bash
# Written by muster 0.1.0 for the site 'roihu'. It runs with sbatch alone.
#   muster submit -A project_2001234 -N 1 -g 4 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=4 --cpus-per-task=72 --gres=gpu:gh200:4
#SBATCH --account=project_2001234 --time=00:30:00 --partition=gpumedium
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 72
    [ "$muster_nodes" -le 4 ] || muster_other_size 'the partition gpumedium takes jobs of at most 4 nodes'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 23 apptainer --quiet exec --nv --bind /tmp --bind /scratch --bind /home/ada --bind \
        /projappl --bind /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python \
        -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: roihu-one-gpu-torchrun-container.sh
