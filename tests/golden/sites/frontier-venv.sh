#!/bin/bash
# Written by muster 0.1.0 for the site 'frontier'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 8 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-node=8
#SBATCH --account=ACCOUNT --time=00:30:00 --partition=batch
#SBATCH --export=NONE --no-requeue
#SBATCH --network=disable_rdzv_get
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 8 7
    [ "$muster_ntasks_per_node" -eq 8 ] || muster_other_size 'the CPU masks are for 8 ranks on each node'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and 12 more were decided for 2 nodes or more'
    muster_modules /etc/profile
    muster_load 'PrgEnv-gnu/8.7.0|PrgEnv-gnu' 'cpe/26.03|cpe' 'miniforge3/23.11.0-0|miniforge3' 'rocm/7.1.1|rocm' \
        rccl-net-plugin craype-accel-amd-gfx90a
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 NCCL_CROSS_NIC=1 NCCL_NET_GDR_LEVEL=PHB HSA_FORCE_FINE_GRAIN_PCIE=1 \
        FI_MR_CACHE_MONITOR=kdreg2 FI_CXI_DISABLE_HOST_REGISTER=1 FI_CXI_DEFAULT_CQ_SIZE=131072 \
        FI_CXI_DEFAULT_TX_SIZE=2048 FI_CXI_RDZV_PROTO=alt_read FI_CXI_RX_MATCH_MODE=hybrid FI_CXI_RDZV_EAGER_SIZE=0 \
        FI_CXI_RDZV_GET_MIN=0 FI_CXI_RDZV_THRESHOLD=0 MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job" \
        MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job" http_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTP_PROXY=http://proxy.ccs.ornl.gov:3128/ https_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTPS_PROXY=http://proxy.ccs.ornl.gov:3128/ all_proxy=socks5://proxy.ccs.ornl.gov:3128/ \
        ALL_PROXY=socks5://proxy.ccs.ornl.gov:3128/ no_proxy='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' \
        NO_PROXY='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' RES_OPTIONS='timeout:1 attempts:3'
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python
    muster_choose_port
    muster_choose_address numeric
    muster_watch_silence 1800 /opt/muster/bin/python
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,\
0xfe0000000000 --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_end_watch
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (0.1.0, sha256 DIGEST), explained in docs/explanation/script.md.
# in the text muster_common:
#   stop, meeting
# in the script:
#   begin, run_directory, size_granted, go_to, other_size, modules, not_there, expect, silence, port, address,
#   open_errors, watch, muster_forget
# in the text muster_task:
#   rank_slurm, directory, python_there, size_as_planned, address_asked, gpus, cpus, threads, cpus_asked, publish, jax,
#   look, go_looking_rank
