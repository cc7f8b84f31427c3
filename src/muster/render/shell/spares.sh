# Holds $1 of the job's nodes back. The others are those of the ranks.
muster_keep_spares() {
    muster_nodes=$((muster_nodes - $1))
    [ "$muster_nodes" -gt 0 ] || muster_stop "the job has $SLURM_JOB_NUM_NODES nodes, and $1 of them are spare" 'ask for more nodes'
    # A step whose node died has to end: its other ranks would wait for ever.
    unset SLURM_NO_KILL
    muster_place_ranks "$SLURM_JOB_NODELIST"
}

# Chooses the nodes of the ranks: the first of the list $1. Result in $muster_place and the variables of the job. Fails
# where the list is too short.
muster_place_ranks() {
    local names list
    mapfile -t names < <(scontrol show hostnames "$1")
    [ "${#names[@]}" -ge "$muster_nodes" ] || return 1
    names=("${names[@]:0:$muster_nodes}")
    list=${names[*]}
    muster_place=("--nodelist=${list// /,}")
    export SLURM_JOB_NODELIST=${list// /,} SLURM_NODELIST=${list// /,} SLURM_JOB_NUM_NODES=$muster_nodes SLURM_NNODES=$muster_nodes
    [ -z "${SLURM_TASKS_PER_NODE:-}" ] || export SLURM_TASKS_PER_NODE="$muster_ntasks_per_node(x$muster_nodes)"
    [ -z "${MUSTER_NODES:-}" ] || export MUSTER_NODES=$list
}
