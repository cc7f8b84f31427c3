#!/bin/bash
# Written by muster VERSION for the site 'hyperpod'. It runs with sbatch alone.
#   muster submit -N 4 -g 8 -t 00:30:00 --image docker://quay.io/ada/torch:2 -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=8 --exclusive
#SBATCH --time=00:30:00
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=8
    [ "$muster_nodes" -ge 2 ] || muster_other_size 'NCCL_SOCKET_IFNAME and one more were decided for 2 nodes or more'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh \
        muster_task+=stack.sh muster_task+=left.sh muster_keeper=agent_keeper.py
    # the host's: the image has its own
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}" LD_LIBRARY_PATH
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export NCCL_SOCKET_IFNAME='^docker,lo,veth'  # none of the virtual networks of containers
    export FI_EFA_USE_HUGE_PAGE=0  # os.fork() fails where huge pages run out
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=1: a program of its own starts them.
    muster_expect LAUNCHER=torchrun AGENTS=1 GPUS=8 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000 \
        ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_define
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step_reported srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * 1))" --ntasks-per-node="1" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none "${muster_output_flags[@]}" \
        '--container-image=quay.io#ada/torch:2' \
        --container-mounts=/tmp:/tmp,/home/ada:/home/ada,/opt/venv/muster:/opt/muster-ranks/muster:ro,\
"$muster_run_dir:$muster_run_dir" --container-workdir=/home/ada/project \
        --container-env=PYTHONNOUSERSITE,NCCL_SOCKET_IFNAME,FI_EFA_USE_HUGE_PAGE,RES_OPTIONS --input=all \
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
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, expect, count_ends,
#   report_ends_else, silence_else, port, definition, report, open_errors, reported, watch_else, torchrun_status,
#   muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, agent, gpu_kind, stack_else
# muster_read stack.sh
#   stack_inside, library
muster_stack_here docker://quay.io/ada/torch:2 cuda
muster_add_library /opt/muster-ranks
#   agent_words, ends
# muster_read left.sh
#   stay, go_agent
MUSTER_TEXT
{ muster_keeper=$(</dev/stdin); } <<'MUSTER_TEXT'
#   agent_plain.py
MUSTER_TEXT
{ muster_worker=$(</dev/stdin); } <<'MUSTER_TEXT'
#   slurm_names, jax_beside_agent, jax, worker
MUSTER_TEXT
