#!/bin/bash
# Written by muster VERSION for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh hydra_watch.sh \
        muster_task+=left.sh muster_keeper=agent_keeper.py
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=mpirun+torchrun AGENTS=1 GPUS=4 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 \
        PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_mpirun_words labels=yes variables=RES_OPTIONS
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    [ -n "$muster_keeps_logs" ] || muster_keep_report
    muster_watch_hydra "${muster_report:-$muster_logs/ranks.log}"
    muster_to_log mpirun -np "$muster_nodes" "${muster_mpirun_agents[@]}" \
        sh -c "$muster_task" muster python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status "${muster_report:-$muster_logs/ranks.log}"
    muster_count_ends of=agents  # a 0 is believed after counting
    muster_end_watch
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory, leave_else, size_granted, go_to, read, not_there, expect, count_ends,
#   report_ends_else, silence_else, port, report, to_log, torchrun_status, mpirun, hydra_watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_mpi, directory, python_there, agent, agent_words, ends
# muster_read left.sh
#   stay, go_mpi_agent
MUSTER_TEXT
{ muster_keeper=$(</dev/stdin); } <<'MUSTER_TEXT'
#   agent_plain.py
MUSTER_TEXT
{ muster_worker=$(</dev/stdin); } <<'MUSTER_TEXT'
#   slurm_names, jax_beside_agent, jax, worker
MUSTER_TEXT
