# What the prologue of every rank compares with what it finds: NAME=VALUE for each MUSTER_NAME.
muster_expect() {
    local told
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    for told in "$@"; do export "MUSTER_$told"; done
}
