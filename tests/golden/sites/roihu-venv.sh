#!/bin/bash
# Written by muster VERSION for the site 'roihu'. It runs with sbatch alone.
#   muster submit -A project_2001234 -N 4 -g 4 -t 00:30:00 --venv /home/ada/env -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=72 --gres=gpu:gh200:4
#SBATCH --account=project_2001234 --time=00:30:00 --partition=gpularge
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=72
    [ "$muster_nodes" -le 10 ] || muster_other_size 'the partition gpularge takes jobs of at most 10 nodes'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=left.sh \
        muster_keeper=agent_keeper.py
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 \
        PORT_LOW=20000 PORT_COUNT=12000 PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$((muster_cpus_per_task * muster_ntasks_per_node))" "${muster_output_flags[@]}" --input=all \
        sh -c "$muster_task" muster python -I -S -c "$muster_keeper" label \
        sh -c "$muster_worker" muster python train.py
    muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, not_there, expect, count_ends,
#   report_ends_else, silence_else, port, report, open_errors, reported, watch_else, torchrun_status, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, python_there, agent, agent_words, ends
# muster_read left.sh
#   stay, go_agent
MUSTER_TEXT
{ muster_keeper=$(</dev/stdin); } <<'MUSTER_TEXT'
#   agent_plain.py
MUSTER_TEXT
{ muster_worker=$(</dev/stdin); } <<'MUSTER_TEXT'
#   slurm_names, jax_beside_agent, jax, worker
MUSTER_TEXT
