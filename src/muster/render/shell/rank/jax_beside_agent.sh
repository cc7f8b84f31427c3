# The agent's store uses the port of the meeting point. JAX takes the next one, or at the end of the range the one
# before.
muster_jax_port=$((MASTER_PORT + 1))
[ "$MASTER_PORT" -ne $((${MUSTER_PORT_LOW:-0} + ${MUSTER_PORT_COUNT:-65536} - 1)) ] ||
    muster_jax_port=$((MASTER_PORT - 1))
