# What jax.distributed.initialize() needs besides its rank: the port of the meeting, or the one that an agent left free.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=${muster_jax_port:-$MASTER_PORT}
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi
