#!/bin/bash
# Written by muster VERSION for the site 'laptop'. It runs with bash alone.
#   muster run --ntasks-per-node 2 -- python train.py
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=2 nodes=1
    . /home/ada/env/bin/activate || muster_not_there 'the virtual environment /home/ada/env is not there'
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # import muster works in every rank
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}"/home/ada/.local/share/muster/rank-library/0
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=local AGENTS=0 GPUS=0 CPUS=0 VISIBILITY=all GRACE=10 PORT_LOW=20000 PORT_COUNT=12000 \
        PYTHON=/home/ada/env/bin/python
    export MUSTER_PORT=${MUSTER_PORT:-20000}
    muster_pids=()
    for muster_index in {0..1}; do
        export MUSTER_LOCAL_PROCID=$muster_index MUSTER_LOCAL_LOCALID=$((muster_index % 2))
        export MUSTER_LOCAL_NODEID=$((muster_index / 2))
        export MUSTER_LOCAL_NNODES=1 MUSTER_LOCAL_NTASKS=2
        sh -c "$muster_task" muster python train.py <&0 &
        muster_pids+=("$!")
    done
    muster_status=0
    for muster_pid in "${muster_pids[@]}"; do
        wait "$muster_pid" || muster_status=$((muster_status ? muster_status : $?))
    done
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin_here, go_to, not_there, expect, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_local, directory, python_there, size_as_planned, cpus, threads, publish, slurm_names, jax, go_rank
MUSTER_TEXT
