#!/bin/bash
# Written by muster 0.1.0 for the site 'meluxina'. It runs with sbatch alone.
#   muster submit -A p200000 -N 4 -g 4 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --account=p200000
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --partition=gpu
#SBATCH --qos=default
#SBATCH --hint=nomultithread
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 16
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME was decided for 2 nodes or more'
    command -v module >/dev/null || { . /etc/profile; } || muster_stop \
        'this host has no modules: /etc/profile cannot be read' 'omit --module, or correct the site profile'
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    module load "$(muster_first Apptainer Apptainer/1.3.6-GCCcore-13.3.0 Apptainer/1.2.4-GCCcore-12.3.0)" || \
        muster_stop 'module load Apptainer or Apptainer/1.3.6-GCCcore-13.3.0 or Apptainer/1.2.4-GCCcore-12.3.0 failed' \
        "$(muster_versions Apptainer)"
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 NCCL_SOCKET_IFNAME=ib0 RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORTS=20000-31999
    muster_choose_port
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label --output="$muster_logs"/%N.log --input=0 \
        sh -c "$muster_task" muster apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind /mnt/tier1 --bind \
        /mnt/tier2 --bind /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif \
        python train.py
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: meluxina-four-nodes-srun-container.sh
