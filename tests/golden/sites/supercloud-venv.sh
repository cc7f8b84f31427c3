#!/bin/bash
# Written by muster VERSION for the site 'supercloud'. It runs with sbatch alone.
#   muster submit -N 4 -g 2 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=2 --cpus-per-task=20 --gres=gpu:volta:2
#SBATCH --time=00:30:00
#SBATCH --export=NONE --no-requeue
#SBATCH --distribution=nopack
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=2 cpus=20
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'PSM2_GPUDIRECT and 2 more were decided for 2 nodes or more'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh hydra_watch.sh \
        muster_task+=look.sh muster_task+=left.sh
    muster_modules /etc/profile
    module purge || muster_stop 'module purge failed' 'module list shows what is loaded'
    muster_load 'anaconda/Python-ML-2025a|anaconda/Python-ML-2024b|anaconda/2023a' \
        'mpi/openmpi-5.0.5|mpi/openmpi-4.1.5' 'cuda/12.2|cuda/11.6' 'nccl/2.23.4-cuda12.2|nccl/2.11.4-cuda11.6'
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export PSM2_GPUDIRECT=1  # Omni-Path's library may then read GPU memory itself
    export NCCL_NET_GDR_LEVEL=SYS  # GPU memory goes straight to the NIC
    export NCCL_P2P_LEVEL=SYS  # the two V100 talk across the sockets
    export NCCL_NET_GDR_READ=1  # also when sending
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=mpirun AGENTS=1 GPUS=2 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_mpirun_words labels=yes \
        variables=PSM2_GPUDIRECT,NCCL_NET_GDR_LEVEL,NCCL_P2P_LEVEL,NCCL_NET_GDR_READ,RES_OPTIONS -- --bind-to socket \
        --map-by socket
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # "${muster_mpirun_ranks[@]}": hosts, binding, labels and variables, for this mpirun
    [ -n "$muster_keeps_logs" ] || muster_keep_report
    muster_watch_hydra "${muster_report:-$muster_logs/ranks.log}"
    muster_to_log mpirun -np "$((muster_nodes * muster_ntasks_per_node))" "${muster_mpirun_ranks[@]}" \
        sh -c "$muster_task" muster python train.py
    muster_hydra_status "${muster_report:-$muster_logs/ranks.log}"
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, modules, not_there, expect,
#   count_ends, report_ends_else, silence_else, port, report, to_log, mpirun, hydra_watch_else, hydra_status,
#   muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_mpi, directory, python_there, size_as_planned, gpus, cpus, threads, cpus_asked, publish, slurm_names, jax
# muster_read look.sh
#   ends
# muster_read left.sh
#   go_mpi_rank
MUSTER_TEXT
