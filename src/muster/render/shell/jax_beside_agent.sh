# The agent's store holds the port of the meeting: JAX takes the next one, and the one before where a firewall's range ends.
muster_jax_port=$((MASTER_PORT + 1))
[ "$MASTER_PORT" -ne $((${MUSTER_PORT_LOW:-0} + ${MUSTER_PORT_COUNT:-65536} - 1)) ] || muster_jax_port=$((MASTER_PORT - 1))
