#!/bin/bash
# Written by muster 0.1.0 for the site 'jean-zay'. It runs with sbatch alone.
#   muster submit -A abc@h100 -N 1 -g 1 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=24 --gres=gpu:1 --hint=nomultithread
#SBATCH --account=abc@h100 --time=00:30:00 --qos=qos_gpu_h100-t3 --constraint=h100
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 1 24
    [ "$muster_nodes" -le 128 ] || muster_other_size 'the QOS qos_gpu_h100-t3 takes jobs of at most 128 nodes'
    muster_modules /etc/profile
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    muster_load arch/h100
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=1 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=10000 PORT_COUNT=20000 PYTHON=/home/ada/env/bin/python
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" \
        --hint=nomultithread --input=all \
        sh -c "$muster_task" muster 6 python -I -S -c "$muster_keeper" plain \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: jean-zay-one-gpu-torchrun-venv.sh
