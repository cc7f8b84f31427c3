#!/bin/bash
# Written by muster 0.1.0 for the site 'nibi'. It runs with sbatch alone.
#   muster submit -A def-someuser -N 1 -g 1 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=14 --gpus-per-node=h100:1 --mem-per-gpu=250G
#SBATCH --account=def-someuser --time=00:30:00
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 14
    muster_modules /etc/profile
    muster_load apptainer
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=mpirun+torchrun AGENTS=1 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_mpirun_words 0 PYTHONNOUSERSITE RES_OPTIONS --
    [ -n "$muster_keeps_logs" ] || muster_keep_report
    muster_watch_hydra "${muster_report:-$muster_logs/ranks.log}"
    muster_to_log mpirun -np "$muster_nodes" "${muster_mpirun_agents[@]}" \
        sh -c "$muster_task" muster 19 apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python -I -S -c \
        "$muster_keeper" plain \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status "${muster_report:-$muster_logs/ranks.log}"
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: fir-one-gpu-mpirun+torchrun-container.sh
