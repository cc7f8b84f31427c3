#!/bin/bash
# Written by muster VERSION for the site 'clariden'. It runs with sbatch alone.
#   muster submit -A g123 -N 4 -g 4 -t 00:30:00 --image site:ngc-pytorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=72 --gpus-per-node=4
#SBATCH --account=g123 --time=00:30:00 --partition=normal
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=72
    [ "$muster_ntasks_per_node" -eq 4 ] || muster_other_size 'the CPU masks are for 4 ranks on each node'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_PROTO and one more were decided for 2 nodes or more'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=look.sh \
        muster_task+=stack.sh muster_task+=left.sh
    ulimit -c 0 || muster_stop 'the site'"'"'s command failed: ulimit -c 0' 'run it by hand to see why'
    # the host's: the image has its own
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    unset NCCL_NET_PLUGIN  # it would take precedence over NCCL_NET
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export NCCL_PROTO='^LL128'  # LL128 over Slingshot gives wrong sums on GH200
    export NCCL_SOCKET_IFNAME=hsn  # NCCL meets over the fast network
    export MPICH_GPU_SUPPORT_ENABLED=0  # GPU-aware MPI beside NCCL can deadlock
    export TORCH_NCCL_ASYNC_ERROR_HANDLING=1  # a dead peer ends the rank
    export CUDA_CACHE_DISABLE=1  # no compiled code on the shared file system
    export PMIX_MCA_psec=native  # no warnings of PMIx at the start
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_define 'image = "jfrog.svc.cscs.ch#docker-group-csstaff/alps-images/ngc-pytorch:26.02-py3-alps6"' \
        'workdir = "/home/ada/project"' 'mounts = [' '    "/tmp:/tmp",' '    "/capstor:/capstor",' \
        '    "/home/ada:/home/ada",' '    "/iopsstor:/iopsstor",' \
        '    "/opt/venv/muster:/opt/muster-ranks/muster:ro",' '    "'"$muster_run_dir:$muster_run_dir"'",' ']' \
        'entrypoint = true' '' '[env]' 'PYTHONNOUSERSITE = "1"' 'NCCL_PROTO = "^LL128"' 'NCCL_SOCKET_IFNAME = "hsn"' \
        'MPICH_GPU_SUPPORT_ENABLED = "0"' 'TORCH_NCCL_ASYNC_ERROR_HANDLING = "1"' 'CUDA_CACHE_DISABLE = "1"' \
        'PMIX_MCA_psec = "native"' 'RES_OPTIONS = "timeout:1 attempts:3"' '' '[annotations]' \
        'com.hooks.cxi.enabled = "false"'
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    # --network=disable_rdzv_get: every step with extended-image; --cpu-bind: each rank on the cores beside its GPU
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" --network=disable_rdzv_get \
        --cpu-bind=mask_cpu:0xffffffffffffffffff,0xffffffffffffffffff000000000000000000,\
0xffffffffffffffffff000000000000000000000000000000000000,\
0xffffffffffffffffff000000000000000000000000000000000000000000000000000000 \
        --environment="$muster_run_dir"/image.toml --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_count_ends of=ranks  # a 0 is believed after counting
    muster_end_watch
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, expect, count_ends,
#   report_ends_else, silence_else, port, definition, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, size_as_planned, gpus, cpus, threads, cpus_asked, publish, jax
# muster_read look.sh
#   gpu_kind, stack_else
# muster_read stack.sh
#   stack_inside, library
muster_stack_here docker://jfrog.svc.cscs.ch/docker-group-csstaff/alps-images/ngc-pytorch:26.02-py3-alps6 cuda
muster_add_library /opt/muster-ranks
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
