# Exports what was planned, for the prologue of every rank to compare with what it finds. NAME=VALUE becomes
# MUSTER_NAME; PORTS=LOW-HIGH is the range of ports.
muster_expect() {
    local expectation ports
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    for expectation in "$@"; do
        case $expectation in
        PORTS=*)
            ports=${expectation#PORTS=}
            export MUSTER_PORT_LOW=${ports%-*} MUSTER_PORT_COUNT=$((${ports#*-} - ${ports%-*} + 1))
            ;;
        *) export "MUSTER_$expectation" ;;
        esac
    done
}
