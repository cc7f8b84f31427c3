#!/bin/bash
# Written by muster 0.1.0 for the site 'frontier'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 8 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --account=ACCOUNT
#SBATCH --time=00:30:00
#SBATCH --export=NONE
#SBATCH --no-requeue
#SBATCH --partition=batch
#SBATCH --network=disable_rdzv_get
#SBATCH --comment=muster:DIGEST
# shellcheck disable=SC2016,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 8 7
    [ "$muster_ntasks_per_node" -eq 8 ] || muster_other_size 'the CPU masks are for 8 ranks on each node'
    [ "$muster_nodes" -ge 2 ] || muster_other_size \
        'NCCL_SOCKET_IFNAME was decided for 2 nodes or more, and so were 12 more variables'
    command -v module >/dev/null || { . /etc/profile; } || muster_stop \
        'this host has no modules: /etc/profile cannot be read' 'omit --module, or correct the site profile'
    module load "$(muster_first PrgEnv-gnu/8.7.0 PrgEnv-gnu)" || muster_stop \
        'module load PrgEnv-gnu/8.7.0 or PrgEnv-gnu failed' "$(muster_versions PrgEnv-gnu)"
    module load "$(muster_first cpe/26.03 cpe)" || muster_stop 'module load cpe/26.03 or cpe failed' \
        "$(muster_versions cpe)"
    module load "$(muster_first miniforge3/23.11.0-0 miniforge3)" || muster_stop \
        'module load miniforge3/23.11.0-0 or miniforge3 failed' "$(muster_versions miniforge3)"
    module load "$(muster_first rocm/7.1.1 rocm)" || muster_stop 'module load rocm/7.1.1 or rocm failed' \
        "$(muster_versions rocm)"
    muster_load rccl-net-plugin craype-accel-amd-gfx90a
    . /home/ada/env/bin/activate || muster_stop 'the virtual environment /home/ada/env is not there' \
        'is it on a file system that the compute nodes see?'
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 NCCL_CROSS_NIC=1 NCCL_NET_GDR_LEVEL=PHB HSA_FORCE_FINE_GRAIN_PCIE=1 \
        FI_MR_CACHE_MONITOR=kdreg2 FI_CXI_DISABLE_HOST_REGISTER=1 FI_CXI_DEFAULT_CQ_SIZE=131072 \
        FI_CXI_DEFAULT_TX_SIZE=2048 FI_CXI_RDZV_PROTO=alt_read FI_CXI_RX_MATCH_MODE=hybrid FI_CXI_RDZV_EAGER_SIZE=0 \
        FI_CXI_RDZV_GET_MIN=0 FI_CXI_RDZV_THRESHOLD=0 MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job" \
        MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job" http_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTP_PROXY=http://proxy.ccs.ornl.gov:3128/ https_proxy=http://proxy.ccs.ornl.gov:3128/ \
        HTTPS_PROXY=http://proxy.ccs.ornl.gov:3128/ all_proxy=socks5://proxy.ccs.ornl.gov:3128/ \
        ALL_PROXY=socks5://proxy.ccs.ornl.gov:3128/ no_proxy='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' \
        NO_PROXY='localhost,127.0.0.1,::1,127.0.0.0/8,*.ccs.ornl.gov' RES_OPTIONS='timeout:1 attempts:3'
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PYTHON=/home/ada/env/bin/python PORTS=20000-31999
    muster_choose_port
    muster_choose_address numeric
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label --output="$muster_logs"/%N.log \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,\
0xfe0000000000 --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# The text below is shared: frontier-one-gpu-srun-venv.sh
