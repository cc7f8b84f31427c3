#!/bin/bash
# Written by muster VERSION for the site 'perlmutter'. It runs with sbatch alone.
#   muster submit -A m1234_g -N 4 -g 4 -t 00:30:00 --image site:pytorch -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=32 --gpus-per-node=4
#SBATCH --account=m1234_g --time=00:30:00 --qos=regular --constraint=gpu
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=32
    [ "$muster_ntasks_per_node" -eq 4 ] || muster_other_size 'the CPU masks are for 4 ranks on each node'
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'FI_MR_CACHE_MONITOR and 5 more were decided for 2 nodes or more'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=look.sh \
        muster_task+=left.sh
    # the host's: the image has its own
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export FI_MR_CACHE_MONITOR=userfaultfd  # memhooks deadlocks
    export HDF5_USE_FILE_LOCKING=FALSE  # locks do not work on its file systems
    export NCCL_NET='AWS Libfabric'  # a missing plugin stops the job: no TCP
    export NCCL_SOCKET_IFNAME=hsn  # NCCL meets over the fast network
    export NCCL_NET_GDR_LEVEL=PHB  # GPU memory goes straight to the NIC
    export NCCL_CROSS_NIC=1  # rings may change the NIC between nodes
    export FI_CXI_DISABLE_HOST_REGISTER=1  # registering host memory inside libfabric can deadlock
    export MPICH_GPU_SUPPORT_ENABLED=0  # GPU-aware MPI beside NCCL can deadlock
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    # --cpu-bind: each rank on the cores beside its GPU
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" \
        --cpu-bind=mask_cpu:0xffff000000000000ffff000000000000,0xffff000000000000ffff00000000,\
0xffff000000000000ffff0000,0xffff000000000000ffff --input=0 \
        sh -c "$muster_task" muster shifter --image=docker:nersc/pytorch:25.02.01 --module=gpu,nccl-plugin \
        --volume=/opt/venv/muster:/opt/muster-ranks/muster --workdir=/home/ada/project \
        sh -c 'export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/opt/muster-ranks; exec "$@"' muster python train.py
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
#   report_ends_else, silence_else, port, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, size_as_planned, gpus, cpus, threads, cpus_asked, publish, jax
# muster_read look.sh
#   image_node
muster_image_needs shifter docker://nersc/pytorch:25.02.01
muster_image_sees /tmp /home/ada /opt/venv/muster
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
