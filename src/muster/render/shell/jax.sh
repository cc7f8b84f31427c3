# Sets the address for jax.distributed.initialize(), with the port of the meeting point, or a port that the agent leaves
# free.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=${muster_jax_port:-$MASTER_PORT}
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi
