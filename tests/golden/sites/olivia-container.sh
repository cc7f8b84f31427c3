#!/bin/bash
# Written by muster VERSION for the site 'olivia'. It runs with sbatch alone.
#   muster submit -A ACCOUNT -N 4 -g 4 -t 00:30:00 --image site:pytorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=72 --gpus-per-node=4 --mem=440G
#SBATCH --account=ACCOUNT --time=00:30:00 --partition=accel
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=72
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_PROTO and 12 more were decided for 2 nodes or more'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh unpacked.sh \
        muster_task+=image_unpack.sh muster_task+=stack.sh muster_task+=left.sh muster_keeper=agent_keeper.py
    muster_modules /etc/profile
    muster_load NRIS/GPU 'NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0|NCCL'
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"  # the host's: the image has its own
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export NCCL_PROTO='^LL128'  # LL128 over Slingshot gives wrong sums on GH200
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # the four interfaces of the fabric
    export NCCL_CROSS_NIC=1  # rings may change the NIC between nodes
    export NCCL_NET_GDR_LEVEL=PHB  # GPU memory goes straight to the NIC
    export FI_MR_CACHE_MONITOR=userfaultfd  # the other monitors can deadlock
    export FI_CXI_DISABLE_HOST_REGISTER=1  # registering host memory inside libfabric can deadlock
    export FI_CXI_DEFAULT_CQ_SIZE=131072  # room for the completions of many ranks
    export FI_CXI_DEFAULT_TX_SIZE=2048  # room for many outstanding sends
    export FI_CXI_RDZV_PROTO=alt_read  # one of the vendor's set against wrong sums
    export FI_CXI_RDZV_EAGER_SIZE=0 FI_CXI_RDZV_THRESHOLD=0 FI_CXI_RDZV_GET_MIN=0  # no eager messages
    export FI_CXI_RX_MATCH_MODE=hybrid  # the NIC's own matching first, then software
    # the way out of the compute nodes
    export http_proxy=http://10.63.2.48:3128/ HTTP_PROXY=http://10.63.2.48:3128/ https_proxy=http://10.63.2.48:3128/ \
        HTTPS_PROXY=http://10.63.2.48:3128/
    export no_proxy=localhost,127.0.0.1,::1 NO_PROXY=localhost,127.0.0.1,::1  # the cluster's own names need no proxy
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000 ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project \
        /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
    muster_count_ends of=agents  # a 0 is believed after counting
    muster_end_watch
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, modules, expect, count_ends,
#   report_ends_else, silence_else, port, report, open_errors, reported, watch_else, torchrun_status, unpacked_else,
#   muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, agent, image_node, image, image_unpack_else
# muster_read image_unpack.sh
#   gpu_kind, stack_else
# muster_read stack.sh
#   image_asks
muster_image_needs apptainer /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif
muster_image_opens apptainer APPTAINER /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif
muster_image_has_sh apptainer /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif APPTAINER
muster_image_made_for apptainer /cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif APPTAINER cuda
muster_image_sees /tmp /home/ada /opt/venv/muster
muster_image_takes APPTAINER /tmp /home/ada
muster_image_gets APPTAINERENV_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK \
    ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT \
    TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS \
    MUSTER_LOCAL_NNODES MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_NODES MUSTER_WIREUP MUSTER_GRACE MUSTER_CPUS \
    MUSTER_OMP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK \
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE PYTHONNOUSERSITE NCCL_PROTO \
    NCCL_SOCKET_IFNAME NCCL_CROSS_NIC NCCL_NET_GDR_LEVEL FI_MR_CACHE_MONITOR FI_CXI_DISABLE_HOST_REGISTER \
    FI_CXI_DEFAULT_CQ_SIZE FI_CXI_DEFAULT_TX_SIZE FI_CXI_RDZV_PROTO FI_CXI_RDZV_EAGER_SIZE FI_CXI_RDZV_THRESHOLD \
    FI_CXI_RDZV_GET_MIN FI_CXI_RX_MATCH_MODE http_proxy HTTP_PROXY https_proxy HTTPS_PROXY no_proxy NO_PROXY \
    RES_OPTIONS
muster_image_library APPTAINERENV_PYTHONPATH /opt/muster-ranks
eval 'eval "$muster_image_words"'
#   agent_words, ends
# muster_read left.sh
#   stay, go_agent
MUSTER_TEXT
{ muster_keeper=$(</dev/stdin); } <<'MUSTER_TEXT'
#   agent_plain.py
MUSTER_TEXT
{ muster_worker=$(</dev/stdin); } <<'MUSTER_TEXT'
#   slurm_names, jax_beside_agent, jax, worker
MUSTER_TEXT
