#!/bin/bash
# Written by muster 0.1.0 for the site 'frontier'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 1 -g 8 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=1 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-node=8
#SBATCH --account=ACCOUNT --time=00:30:00 --partition=batch
#SBATCH --export=NONE --no-requeue
#SBATCH --network=disable_rdzv_get
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 8 7
    [ "$muster_ntasks_per_node" -eq 8 ] || muster_other_size 'the CPU masks are for 8 ranks on each node'
    [ "$muster_nodes" -lt 2 ] || muster_other_size \
        'NCCL_SOCKET_IFNAME and 12 more were decided for fewer than 2 nodes'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"
    export PYTHONNOUSERSITE=1 MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job" \
        MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job" http_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTP_PROXY=http://proxy.ccs.ornl.gov:3128/ https_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTPS_PROXY=http://proxy.ccs.ornl.gov:3128/ all_proxy=socks5://proxy.ccs.ornl.gov:3128/ \
        ALL_PROXY=socks5://proxy.ccs.ornl.gov:3128/ no_proxy='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' \
        NO_PROXY='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000
    muster_choose_port
    muster_choose_address numeric
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,\
0xfe0000000000 --input=0 \
        sh -c "$muster_task" muster apptainer --quiet exec --rocm --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python train.py
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: frontier-one-gpu-srun-container.sh
