# Who this rank is, from the variables of Open MPI or MPICH. Slurm's variables describe MPI's daemon here, not the rank.
if [ -n "${OMPI_COMM_WORLD_RANK:-}" ]; then
    muster_rank=$OMPI_COMM_WORLD_RANK
    muster_size=$OMPI_COMM_WORLD_SIZE
    muster_local_rank=$OMPI_COMM_WORLD_LOCAL_RANK
    muster_local_size=$OMPI_COMM_WORLD_LOCAL_SIZE
elif [ -n "${PMI_RANK:-}" ]; then
    muster_rank=$PMI_RANK
    muster_size=$PMI_SIZE
    muster_local_rank=${MPI_LOCALRANKID:-}
    muster_local_size=${MPI_LOCALNRANKS:-}
else
    muster_stop 'this rank was not started by mpirun: neither OMPI_COMM_WORLD_RANK nor PMI_RANK is set' \
        'load the MPI module whose mpirun starts the ranks, or use --launcher srun'
fi
# mpirun got the nodes in this order, so the position of this host's name in the list is the rank of the node.
read -r muster_here </proc/sys/kernel/hostname
# Open MPI's report of a rank that failed is often lost, and Hydra's names no rank: the shell of the rank says it.
muster_who="$muster_rank on ${SLURMD_NODENAME:-$muster_here}"
muster_nodes=0
muster_node_rank=
for muster_name in ${MUSTER_NODES:-$muster_here}; do
    [ "${muster_name%%.*}" != "${muster_here%%.*}" ] || muster_node_rank=$muster_nodes
    muster_nodes=$((muster_nodes + 1))
done
if [ -z "$muster_node_rank" ]; then
    [ $((muster_size % muster_nodes)) -eq 0 ] || muster_stop \
        "the name of this host, $muster_here, is not in the list of nodes: ${MUSTER_NODES:-}" \
        'use --launcher srun on this site'
    muster_node_rank=$((muster_rank / (muster_size / muster_nodes)))
fi
[ -n "$muster_local_rank" ] || muster_local_rank=$((muster_rank % (muster_size / muster_nodes)))
[ -n "$muster_local_size" ] || muster_local_size=$((muster_size / muster_nodes))
muster_first=${MUSTER_NODES%% *}
muster_address=${MUSTER_ADDRESS:-${muster_first:-$muster_here}${MUSTER_HOST_SUFFIX:-}}
muster_job=${MUSTER_JOB:-${SLURM_JOB_ID:-0}}
muster_id=$muster_job.${MUSTER_STEP:-mpi}
muster_port=${MUSTER_PORT:-}
[ -n "$muster_port" ] || muster_port_from_ids "${SLURM_JOB_ID:-0}" 0
