#!/bin/bash
# Written by muster 0.1.0 for the site 'lumi'. It runs with sbatch alone.
#   muster submit -A project_465001063 -N 4 -g 8 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-node=8 --mem=480G
#SBATCH --account=project_465001063 --time=00:30:00 --partition=standard-g
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 8 7
    [ "$muster_nodes" -le 1024 ] || muster_other_size 'the partition standard-g takes jobs of at most 1024 nodes'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and one more were decided for 2 nodes or more'
    [ "$muster_nodes" -lt 257 ] || muster_other_size 'NCCL_NET_GDR_LEVEL was decided for fewer than 257 nodes'
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 NCCL_NET_GDR_LEVEL=PHB \
        MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job" \
        MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job" \
        AITER_JIT_DIR="${TMPDIR:-/tmp}"/aiter-"$muster_job" RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=10000 PORT_COUNT=10000 PYTHON=/home/ada/env/bin/python
    muster_choose_port
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster 6 python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: lumi-one-gpu-torchrun-venv.sh
