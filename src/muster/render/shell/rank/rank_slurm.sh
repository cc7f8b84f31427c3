# Who this task is, from the variables of its Slurm step: no daemon is asked.
[ -n "${SLURM_PROCID:+${SLURM_LOCALID:+${SLURM_NODEID:-}}}" ] || muster_stop \
    'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun'
muster_rank=$SLURM_PROCID muster_local_rank=$SLURM_LOCALID muster_node_rank=$SLURM_NODEID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_size=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-$muster_size}}
muster_local_size=${muster_local_size%%[(,]*}
muster_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}
muster_first_host "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_port=${MUSTER_PORT:-}
muster_id=$muster_job.${SLURM_STEP_ID:-0}.${SLURM_RESTART_COUNT:-0}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" "${SLURM_STEP_ID:-0}"
