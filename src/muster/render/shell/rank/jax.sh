# The address for jax.distributed.initialize(), with the port of the meeting point, or one that the agent leaves free.
case $MASTER_ADDR in *:*) muster_jax_host=[$MASTER_ADDR] ;; *) muster_jax_host=$MASTER_ADDR ;; esac
export JAX_COORDINATOR_ADDRESS="${JAX_COORDINATOR_ADDRESS:-$muster_jax_host:${muster_jax_port:-$MASTER_PORT}}"
