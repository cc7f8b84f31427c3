#!/bin/bash
# Written by muster 0.1.0 for the site 'trillium'. It runs with sbatch alone.
#   muster submit -N 1 -g 1 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=24 --gpus-per-node=1
#SBATCH --time=00:30:00 --partition=compute
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 24
    [ "$muster_nodes" -le 25 ] || muster_other_size 'the partition compute takes jobs of at most 25 nodes'
    muster_modules /etc/profile
    muster_load apptainer
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 19 apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python -I -S -c \
        "$muster_keeper" plain \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: isambard-ai-one-gpu-torchrun-container.sh
