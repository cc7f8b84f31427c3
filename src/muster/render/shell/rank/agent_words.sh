# Tells the keeper of the agent, behind the command of a rank, what it starts torchrun with: ten words.
set -- "$@" "${MUSTER_GRACE:-10}" "$MUSTER_NTASKS_PER_NODE" "${MUSTER_AGENT_MODULE:-torch.distributed.run}" \
    --nnodes="$muster_nodes" --rdzv-backend=c10d --rdzv-endpoint="$muster_address:$muster_port" --rdzv-id="$muster_id" \
    --rdzv-conf="is_host=$muster_host" --local-addr="${SLURMD_NODENAME:-$muster_here}${MUSTER_HOST_SUFFIX:-}" \
    "${MUSTER_AGENT_NEEDS:-}
${MUSTER_AGENT_FLAGS:-}"
