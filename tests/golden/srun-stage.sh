#!/bin/bash
# Written by muster VERSION for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 --venv /home/ada/env --stage-env --stage '/scratch/it'"'"'s data' --stage-out out -- python
#     train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh stage.sh \
        muster_stage_node=stage_node.sh muster_task+=look.sh muster_task+=stage_rank.sh muster_task+=left.sh
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000 \
        ENDS="$(muster_ends)"
    # Copies on the nodes' own disks. If a thing cannot be staged, a warning names it; the shared one is used.
    muster_stage_begin folder=/tmp out=/home/ada/project/out
    muster_stage_thing number=1 name='the environment /home/ada/env' \
        packed=/home/ada/project/muster-runs/stage/env-8a10ebf8 path=/home/ada/env path=/apps/python/bin/python3.11 \
        path=/apps/python/lib unchanged=/home/ada/env unchanged=/home/ada/env/lib/python3.11/site-packages && {
        muster_stage_except /apps/python/lib/python3.11/site-packages
        muster_stage_over /home/ada/env /apps/python/bin/python3.11 /apps/python/lib
        muster_stage_environment /home/ada/env
    }
    muster_stage_thing number=2 name='/scratch/it'"'"'s data' \
        packed='/home/ada/project/muster-runs/stage/it'"'"'s data-fc46bfb9' path='/pfs/it'"'"'s data' \
        unchanged='/pfs/it'"'"'s data' && {
        muster_stage_over '/pfs/it'"'"'s data'
    }
    muster_stage_script name=train.py file=/home/ada/project/train.py
    muster_stage_library /home/ada/.local/share/muster/rank-library/0
    muster_stage_mount || muster_stage_closed
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none --label \
        "${muster_output_flags[@]}" --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_count_ends of=ranks  # a 0 is believed after counting
    muster_end_watch
    muster_stage_end
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory, leave_else, size_granted, go_to, read, not_there, expect, count_ends,
#   report_ends_else, silence_else, port, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, size_as_planned, gpus, cpus, threads, publish, jax
# muster_read look.sh
# muster_read stage_rank.sh
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
#   stage_else
