# What the prologue of every rank compares with what it finds: NAME=VALUE for each MUSTER_NAME, PORTS=LOW-HIGH for the range
# from which a port is taken.
muster_expect() {
    local told ports
    export MUSTER_JOB="$muster_job" MUSTER_RUN_DIR="$muster_run_dir"
    export MUSTER_NTASKS=$((muster_nodes * muster_ntasks_per_node)) MUSTER_NTASKS_PER_NODE="$muster_ntasks_per_node"
    for told in "$@"; do
        case $told in
        PORTS=*)
            ports=${told#PORTS=}
            export MUSTER_PORT_LOW=${ports%-*} MUSTER_PORT_COUNT=$((${ports#*-} - ${ports%-*} + 1))
            ;;
        *) export "MUSTER_$told" ;;
        esac
    done
}
