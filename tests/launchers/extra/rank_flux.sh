# Who this task is, from the variables of Flux.
muster_rank=$FLUX_TASK_RANK
muster_size=$FLUX_JOB_SIZE
muster_local_rank=$FLUX_TASK_LOCAL_ID
muster_nodes=$FLUX_JOB_NNODES
muster_local_size=$((muster_size / muster_nodes))
muster_node_rank=$((muster_rank / muster_local_size))
muster_first_host "${SLURM_JOB_NODELIST:-}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-0}
muster_id=$muster_job.${FLUX_JOB_ID:-0}
muster_port=${MUSTER_PORT:-}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" 0
