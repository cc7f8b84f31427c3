# Sets the variables that torch reads.
if [ "$muster_rank" -eq 0 ] && [ -z "${MUSTER_PORT_CHOSEN:-}" ] && muster_port_is_taken "$muster_port"; then
    muster_stop "port $muster_port of $muster_address is taken by another program" \
        'start again, or choose one with --master-port'
fi
export RANK="$muster_rank" WORLD_SIZE="$muster_size" LOCAL_RANK="$muster_local_rank"
export LOCAL_WORLD_SIZE="$muster_local_size" GROUP_RANK="$muster_node_rank" GROUP_WORLD_SIZE="$muster_nodes"
export NODE_RANK="$muster_node_rank" ROLE_NAME=default ROLE_RANK="$muster_rank" ROLE_WORLD_SIZE="$muster_size"
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port"
export TORCHELASTIC_RUN_ID="$muster_id" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
# With this variable, rank 0 would wait for ever for an agent's store that does not exist.
unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
