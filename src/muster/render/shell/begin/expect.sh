# Exports what was planned, NAME=VALUE as MUSTER_NAME: the prologue of every rank compares it with what it finds.
muster_expect() {
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    export "${@/#/MUSTER_}"
}
