# Who this task is, from the variables of its Slurm step: nothing is asked of anybody.
case ${SLURM_PROCID:+p}${SLURM_LOCALID:+l}${SLURM_NODEID:+n} in
pln) ;;
*) muster_stop 'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun' ;;
esac
muster_rank=$SLURM_PROCID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_rank=$SLURM_LOCALID
muster_node_rank=$SLURM_NODEID
muster_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}
# Muster starts the same number on every node.
muster_local_size=${MUSTER_NTASKS_PER_NODE:-$((muster_size / muster_nodes))}
muster_first_host "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_port=${MUSTER_PORT:-}
# Ports that Slurm itself reserved for this step come first: steps that run at the same time differ.
[ -n "$muster_port" ] || [ -n "${MUSTER_RANGE_ASKED:-}" ] || muster_port=${SLURM_STEP_RESV_PORTS:-}
muster_port=${muster_port%%[,-]*}
muster_id=$muster_job.${SLURM_STEP_ID:-0}.${SLURM_RESTART_COUNT:-0}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" "${SLURM_STEP_ID:-0}"
case ${SLURM_DISTRIBUTION:-block} in
*arbitrary*) muster_stop 'with --distribution=arbitrary nobody knows the host of rank 0' 'use block, cyclic or plane, or give --master-addr' ;;
esac
if [ -n "${OMPI_COMM_WORLD_RANK:-}" ] && [ "$OMPI_COMM_WORLD_RANK" != "$muster_rank" ]; then
    muster_stop "two launchers name this rank: srun says $muster_rank, Open MPI says $OMPI_COMM_WORLD_RANK" \
        'unset the OMPI_* variables of the outer mpirun, or use --launcher mpirun'
fi
