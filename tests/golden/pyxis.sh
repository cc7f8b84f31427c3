#!/bin/bash
# Written by muster VERSION for the site 'generic'. It runs with sbatch alone.
#   muster submit -N 2 --image docker://nvcr.io/nvidia/pytorch:26.02-py3 --engine pyxis --env 'A=$x' -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=1
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh muster_task+=look.sh \
        muster_task+=left.sh
    # the host's: the image has its own
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    export A='$x'
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000 \
        ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_define
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none --label \
        "${muster_output_flags[@]}" '--container-image=nvcr.io#nvidia/pytorch:26.02-py3' \
        --container-mounts=/tmp:/tmp,/home/ada:/home/ada,/opt/venv/muster:/opt/muster-ranks/muster:ro,\
"$muster_run_dir:$muster_run_dir" --container-workdir=/home/ada/project \
        --container-env=PYTHONNOUSERSITE,RES_OPTIONS,A --input=0 \
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, expect, count_ends, report_ends_else,
#   silence_else, port, definition, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, size_as_planned, cpus, threads, publish, jax
# muster_read look.sh
#   library
muster_add_library /opt/muster-ranks
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
