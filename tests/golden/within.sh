#!/bin/bash
# Written by muster VERSION for the site 'generic'. It runs with bash alone.
#   muster run -N 2 --ntasks-per-node 3 -- hostname
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=3 nodes=2
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 report_ends.sh watch.sh muster_task+=left.sh
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000 \
        PYTHON=/home/ada/env/bin/python ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_open_errors
    muster_step srun "${muster_error[@]}" --nodes="$muster_nodes" \
        --ntasks="$((muster_nodes * muster_ntasks_per_node))" --ntasks-per-node="$muster_ntasks_per_node" \
        --kill-on-bad-exit=0 --export=ALL --mpi=none --label --input=0 \
        sh -c "$muster_task" muster hostname
    muster_count_ends of=ranks  # a 0 is believed after counting
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory_of_stream, size_asked, go_to, read, not_there, expect, count_ends, report_ends_else,
#   port, open_errors, watch_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, tasks_of_node, directory, python_there, size_as_planned, cpus, threads, publish, jax, ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
