# Finds how many tasks the node number $2 has, in Slurm's form "4(x2),3" ($1). Result in $muster_tasks.
muster_tasks_of_node() {
    muster_tasks=
    muster_seen=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do
        case $muster_item in
        *'(x'*)
            muster_times=${muster_item#*'(x'}
            muster_times=${muster_times%')'}
            ;;
        *) muster_times=1 ;;
        esac
        muster_seen=$((muster_seen + muster_times))
        if [ "$2" -lt "$muster_seen" ]; then
            muster_tasks=${muster_item%%'('*}
            break
        fi
    done
    IFS=$muster_ifs
}

# Who this task is, from the variables of its Slurm step: no daemon is asked.
case ${SLURM_PROCID:+p}${SLURM_LOCALID:+l}${SLURM_NODEID:+n} in
pln) ;;
*) muster_stop 'this task was not started by srun: SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID is missing' 'start it with srun' ;;
esac
muster_rank=$SLURM_PROCID
muster_size=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
muster_local_rank=$SLURM_LOCALID
muster_node_rank=$SLURM_NODEID
muster_nodes=${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}
# The planned number is not used: inside salloc, Slurm may spread the tasks in another way than the step asks for.
muster_tasks_of_node "${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-$muster_size}}" "$muster_node_rank"
muster_local_size=${muster_tasks:-$muster_size}
muster_first_host "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}"
muster_address=${MUSTER_ADDRESS:-$muster_first${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_port=${MUSTER_PORT:-}
# Ports that Slurm reserved for this step come first: steps that run at the same time have different ones.
[ -n "$muster_port" ] || [ -n "${MUSTER_RANGE_ASKED:-}" ] || muster_port=${SLURM_STEP_RESV_PORTS:-}
muster_port=${muster_port%%[,-]*}
muster_id=$muster_job.${SLURM_STEP_ID:-0}.${SLURM_RESTART_COUNT:-0}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" "${SLURM_STEP_ID:-0}"
case ${SLURM_DISTRIBUTION:-block} in
*arbitrary*) muster_stop 'with --distribution=arbitrary the host of rank 0 is not known' 'use block, cyclic or plane, or give --master-addr' ;;
esac
if [ -n "${OMPI_COMM_WORLD_RANK:-}" ] && [ "$OMPI_COMM_WORLD_RANK" != "$muster_rank" ]; then
    muster_stop "two launchers name this rank: srun says $muster_rank, Open MPI says $OMPI_COMM_WORLD_RANK" \
        'unset the OMPI_* variables of the outer mpirun, or use --launcher mpirun'
fi
