#!/bin/bash
# Written by muster VERSION for the site 'lumi'. It runs with sbatch alone.
#   muster submit -A project_465000000 -N 4 -g 8 -t 00:30:00 --image site:multitorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-node=8 --mem=480G
#SBATCH --account=project_465000000 --time=00:30:00 --partition=standard-g
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=8 cpus=7
    [ "$muster_nodes" -le 1024 ] || muster_other_size 'the partition standard-g takes jobs of at most 1024 nodes'
    [ "$muster_ntasks_per_node" -eq 8 ] || muster_other_size 'the CPU masks are for 8 ranks on each node'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and one more were decided for 2 nodes or more'
    [ "$muster_nodes" -lt 257 ] || muster_other_size 'NCCL_NET_GDR_LEVEL was decided for fewer than 257 nodes'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh unpacked.sh \
        muster_task+=look.sh muster_task+=image_unpack.sh muster_task+=stack.sh muster_task+=left.sh
    muster_modules /etc/profile
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    muster_use /appl/local/laifs/modules
    muster_load lumi-aif-singularity-bindings
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"  # the host's: the image has its own
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # the four interfaces of the fabric
    export NCCL_NET_GDR_LEVEL=PHB  # GPU memory goes straight to the NIC
    export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job"  # MIOpen's SQLite file needs the node's own disk
    export MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job"  # the compiled kernels beside it
    export AITER_JIT_DIR="${TMPDIR:-/tmp}"/aiter-"$muster_job"  # compiled kernels stay off the shared file system
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=10000 \
        PORT_COUNT=10000 ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    # --cpu-bind: each rank on the cores beside its GPU
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,\
0xfe0000000000 --input=0 \
        sh -c "$muster_task" muster singularity --quiet run --bind /tmp --bind /pfs --bind /appl --bind /flash --bind \
        /scratch --bind /project --bind /home/ada --bind /projappl --bind /opt/cray --bind /var/spool/slurmd --bind \
        /usr/lib64/libcxi.so.1 --bind /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project \
        /appl/local/laifs/containers/lumi-multitorch-latest.sif python train.py
    muster_count_ends of=ranks  # a 0 is believed after counting
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
#   report_ends_else, silence_else, port, open_errors, watch_else, unpacked_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, once_per_node
muster_node_prologue rocm-smi
#   directory, size_as_planned, gpus, cpus, threads, cpus_asked, publish, jax
# muster_read look.sh
#   image_node, image, image_unpack_else
# muster_read image_unpack.sh
#   gpu_kind, stack_else
# muster_read stack.sh
#   image_asks
muster_image_needs singularity /appl/local/laifs/containers/lumi-multitorch-latest.sif
muster_image_opens singularity SINGULARITY /appl/local/laifs/containers/lumi-multitorch-latest.sif
muster_image_made_for singularity /appl/local/laifs/containers/lumi-multitorch-latest.sif SINGULARITY rocm
muster_image_sees /tmp /pfs /appl /flash /scratch /project /home/ada /projappl /opt/cray /var/spool/slurmd \
    /usr/lib64/libcxi.so.1 /opt/venv/muster
muster_image_takes SINGULARITY /tmp /pfs /appl /flash /scratch /project /home/ada /projappl /opt/cray \
    /var/spool/slurmd /usr/lib64/libcxi.so.1
muster_image_gets SINGULARITYENV_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK \
    ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT \
    TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS \
    MUSTER_LOCAL_NNODES MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_NODES MUSTER_WIREUP MUSTER_GRACE MUSTER_CPUS \
    MUSTER_OMP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK \
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE PYTHONNOUSERSITE NCCL_SOCKET_IFNAME \
    NCCL_NET_GDR_LEVEL MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR AITER_JIT_DIR RES_OPTIONS
muster_image_loads singularity /appl/local/laifs/containers/lumi-multitorch-latest.sif SINGULARITY \
    /usr/lib64/libcxi.so.1
muster_image_library SINGULARITYENV_PYTHONPATH /opt/muster-ranks
eval 'eval "$muster_image_words"'
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
