# The hosts in rank order, and this mpirun's own words for hosts, labels and variables.
muster_mpirun_words() {
    local names host hosts='' kind
    mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    names=("${names[@]:0:$muster_nodes}")
    MUSTER_NODES="${names[*]}"
    export MUSTER_NODES
    for host in "${names[@]}"; do hosts=$hosts${hosts:+,}$host; done
    kind=$(mpirun --version 2>&1)
    case $kind in
    *'Open MPI'* | *OpenRTE*)
        muster_mpirun_ranks=(--host "${hosts//,/:$muster_ntasks_per_node,}:$muster_ntasks_per_node"
            --map-by "ppr:$muster_ntasks_per_node:node" --bind-to none)
        muster_mpirun_agents=(--host "$hosts" --map-by ppr:1:node --bind-to none)
        [ "$muster_label" -eq 0 ] || muster_mpirun_ranks+=(--tag-output)
        for host in "${muster_carried[@]}"; do
            muster_mpirun_ranks+=(-x "$host")
            muster_mpirun_agents+=(-x "$host")
        done
        ;;
    *HYDRA* | *Hydra* | *'Intel(R) MPI'*)
        muster_mpirun_ranks=(-hosts "$hosts" -ppn "$muster_ntasks_per_node" -genvall)
        muster_mpirun_agents=(-hosts "$hosts" -ppn 1 -genvall)
        [ "$muster_label" -eq 0 ] || muster_mpirun_ranks+=(-prepend-rank)
        ;;
    *) muster_stop "mpirun is neither Open MPI's nor MPICH's: ${kind%%$'\n'*}" 'load the MPI module of the site, or use --launcher srun' ;;
    esac
}
