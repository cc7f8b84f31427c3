#!/bin/bash
# Written by muster 0.1.0 for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 -g 4 --venv /home/ada/env --stage-env --stage '/scratch/it'"'"'s data' --stage-out out -- python
#     train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin /home/ada/project 4 0
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000
    # Copies on the nodes' own disks. If a thing cannot be staged, a warning names it; the shared one is used.
    muster_stage_begin /tmp /home/ada/project/out
    muster_stage_thing 1 'the environment /home/ada/env' /home/ada/project/muster-runs/stage/env-8a10ebf8 \
        /home/ada/env /apps/python/bin/python3.11 /apps/python/lib -- /home/ada/env \
        /home/ada/env/lib/python3.11/site-packages && {
        muster_stage_except /apps/python/lib/python3.11/site-packages
        muster_stage_environment /home/ada/env /apps/python/bin/python3.11 /apps/python/lib
    }
    muster_stage_thing 2 '/scratch/it'"'"'s data' '/home/ada/project/muster-runs/stage/it'"'"'s data-fc46bfb9' \
        '/pfs/it'"'"'s data' -- '/pfs/it'"'"'s data' && {
        muster_stage_over '/pfs/it'"'"'s data'
    }
    muster_stage_script train.py /home/ada/project/train.py
    muster_stage_library /home/ada/.local/share/muster/rank-library/0
    muster_stage_mount || muster_stage_closed -
    muster_choose_port
    muster_watch_silence 1800 /opt/muster/bin/python
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none --label \
        "${muster_output_flags[@]}" --input=0 \
        sh -c "$muster_task" muster python train.py
    muster_end_watch
    muster_stage_end
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (0.1.0, sha256 DIGEST), explained in docs/explanation/script.md.
# in the text muster_common:
#   stop, meeting
# in the script:
#   begin, run_directory, size_granted, go_to, not_there, expect, silence, port, open_errors, watch, stage,
#   muster_forget
# in the text muster_task:
#   rank_slurm, directory, size_as_planned, gpus, cpus, threads, publish, jax, look, stage_rank, go_looking_rank
# What runs on every node beside the ranks, for as long as they do: POSIX sh, no Python.
# in the text muster_stage_node:
#   stage_node
