# What jax.distributed.initialize() needs besides its rank. Beside the store of torchrun's agent it takes the next port.
if [ -z "${JAX_COORDINATOR_ADDRESS:-}" ]; then
    muster_jax_port=$MASTER_PORT
    case ${MUSTER_LAUNCHER:-} in
    *torchrun)
        muster_jax_port=$((MASTER_PORT + 1))
        # The last port of what a firewall lets through has none behind it.
        [ "$MASTER_PORT" -ne $((${MUSTER_PORT_LOW:-0} + ${MUSTER_PORT_COUNT:-65536} - 1)) ] || muster_jax_port=$((MASTER_PORT - 1))
        ;;
    esac
    case $MASTER_ADDR in
    *:*) export JAX_COORDINATOR_ADDRESS="[$MASTER_ADDR]:$muster_jax_port" ;;
    *) export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$muster_jax_port" ;;
    esac
fi
