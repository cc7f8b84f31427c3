# Holds so many of the job's nodes back. The others are those of the ranks. requeue=yes: Slurm may put the job back into the
# queue. A job that lost a node before it went back has one node less: its ranks keep theirs.
muster_keep_spares() {
    local before muster_spares
    muster_requeue=
    muster_take 'muster_keep_spares: spares requeue' "$@"
    before=$(tail -n 1 "${muster_run_dir:-}/attempts" 2>/dev/null | cut -f 3)
    if [ -n "$before" ]; then
        before=${before//[!,]/}
        muster_nodes=$((${#before} + 1))
        [ "$muster_nodes" -le "$SLURM_JOB_NUM_NODES" ] ||
            muster_stop "the job has $SLURM_JOB_NUM_NODES nodes left, and its ranks need $muster_nodes" 'submit it again'
    else
        muster_nodes=$((muster_nodes - muster_spares))
        [ "$muster_nodes" -gt 0 ] || muster_stop "the job has $SLURM_JOB_NUM_NODES nodes, and $muster_spares of them are spare" 'ask for more nodes'
    fi
    # A step whose node died has to end: its other ranks would wait for ever.
    unset SLURM_NO_KILL
    muster_pool=$SLURM_JOB_NODELIST
    muster_place_ranks "$muster_pool"
}

# Chooses the nodes of the ranks: the first of the list $1. Result in $muster_place and the variables of the job. Fails
# where the list is too short.
muster_place_ranks() {
    local names list
    mapfile -t names < <(scontrol show hostnames "$1")
    [ "${#names[@]}" -ge "$muster_nodes" ] || return 1
    [ -z "$muster_requeue" ] || muster_start_deputy "${names[-1]}"
    names=("${names[@]:0:$muster_nodes}")
    list=${names[*]}
    muster_place=("--nodelist=${list// /,}")
    export SLURM_JOB_NODELIST=${list// /,} SLURM_NODELIST=${list// /,} SLURM_JOB_NUM_NODES=$muster_nodes SLURM_NNODES=$muster_nodes
    [ -z "${SLURM_TASKS_PER_NODE:-}" ] || export SLURM_TASKS_PER_NODE="$muster_ntasks_per_node(x$muster_nodes)"
    [ -z "${MUSTER_NODES:-}" ] || export MUSTER_NODES=$list
}
