#!/bin/bash
# Written by muster VERSION for the site 'lonestar6'. It runs with sbatch alone.
#   muster submit -N 4 -g 3 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=3 --cpus-per-task=42
#SBATCH --time=00:30:00 --partition=gpu-a100
#SBATCH --export=ALL --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=3 cpus=42
    [ "$muster_nodes" -le 8 ] || muster_other_size 'the partition gpu-a100 takes jobs of at most 8 nodes'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh muster_task+=left.sh
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=ibrun AGENTS=1 GPUS=3 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    MUSTER_NODES=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr "\n" " ") && export MUSTER_NODES
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    [ -n "$muster_keeps_logs" ] || muster_keep_report
    muster_to_log ibrun -np "$((muster_nodes * muster_ntasks_per_node))" \
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, not_there, expect, count_ends,
#   report_ends_else, silence_else, port, report, to_log, hydra_status, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_mpi, directory, python_there, size_as_planned, gpus, cpus, threads, cpus_asked, publish, slurm_names, jax,
#   ends
# muster_read left.sh
#   go_mpi_rank
MUSTER_TEXT
