#!/bin/bash
# Written by muster VERSION for the site 'lumi'. It runs with sbatch alone.
#   muster submit -A project_465000000 -N 4 -g 8 -t 00:30:00 --venv /home/ada/env -- python train.py
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
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=look.sh \
        muster_task+=left.sh
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # the four interfaces of the fabric
    export NCCL_NET_GDR_LEVEL=PHB  # GPU memory goes straight to the NIC
    export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job"  # MIOpen's SQLite file needs the node's own disk
    export MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job"  # the compiled kernels beside it
    export AITER_JIT_DIR="${TMPDIR:-/tmp}"/aiter-"$muster_job"  # compiled kernels stay off the shared file system
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=8 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=10000 \
        PORT_COUNT=10000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    # --cpu-bind: each rank on the cores beside its GPU
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" \
        --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,\
0xfe0000000000 --input=0 \
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, not_there, expect, count_ends,
#   report_ends_else, silence_else, port, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, once_per_node
muster_node_prologue rocm-smi
#   directory, python_there, size_as_planned, gpus, cpus, threads, cpus_asked, publish, jax
# muster_read look.sh
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
