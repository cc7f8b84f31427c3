# Builds the flags of this mpirun for hosts (in rank order), labels and variables. labels=yes: each line gets one.
# variables: those that the job sets, with commas between them, more than once where they are many. After -- the site's
# own flags.
muster_mpirun_words() {
    local words=()
    muster_labels='' muster_variables=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        case $1 in
        variables=*) muster_variables+=${1#*=}, ;;
        *) words+=("$1") ;;
        esac
        shift
    done
    muster_take 'muster_mpirun_words: labels variables' "${words[@]}"
    muster_carried=(MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS MUSTER_NTASKS MUSTER_NTASKS_PER_NODE
        MUSTER_GPUS MUSTER_CPUS MUSTER_VISIBILITY MUSTER_GRACE MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_HOST_SUFFIX
        MUSTER_ADDRESS MUSTER_RANGE_ASKED MUSTER_WIREUP MUSTER_PORT MUSTER_PORT_CHOSEN MUSTER_NODES)
    muster_mpirun_site=("${@:2}")
    # shellcheck disable=SC2206  # names without a space
    muster_carried+=(${muster_variables//,/ } MUSTER_STAGE MUSTER_STAGE_SCRIPT MUSTER_STAGE_SCRIPT_HERE
        MUSTER_STAGE_IMAGE MUSTER_STAGE_IMAGE_HERE MUSTER_STAGE_ENV MUSTER_STAGE_ENV_HERE MUSTER_STAGE_BINDS
        MUSTER_STAGE_LIBRARY PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV OMP_NUM_THREADS
        @VISIBLE@)
    # Two runs in one job have the same job id and, with --master-port, the same port. This name tells them apart.
    export MUSTER_STEP="mpi$$.${SLURM_RESTART_COUNT:-0}"
    export MUSTER_DIRECTORY=$PWD
    muster_carried+=(MUSTER_STEP MUSTER_DIRECTORY MUSTER_ENDS MUSTER_DOOR_KEY)
    muster_mpirun_hosts
}

# Builds the flags again for the nodes that the ranks have now.
muster_mpirun_hosts() {
    local names=()
    [ -z "${SLURM_JOB_NODELIST:-}" ] ||
        mapfile -tn "$muster_nodes" names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    [ "${#names[@]}" -eq 0 ] || export MUSTER_NODES="${names[*]}"
    : "${muster_mpirun_kind:=$(mpirun --version 2>&1)}"
    case $muster_mpirun_kind in
    *'Open MPI'* | *OpenRTE*) muster_open_mpi "${names[@]}" ;;
    *HYDRA* | *Hydra* | *'Intel(R) MPI'*) muster_hydra "${names[@]}" ;;
    *) muster_stop "this mpirun belongs neither to Open MPI nor to MPICH: ${muster_mpirun_kind%%$'\n'*}" \
        'load the MPI module of the site, or use --launcher srun' ;;
    esac
}

# Builds the flags of Open MPI for the hosts $@.
muster_open_mpi() {
    local name slots=${*/%/:$muster_ntasks_per_node} hosts=$* binding=(--bind-to none)
    local ranks=(--map-by "ppr:$muster_ntasks_per_node:node") agents=(--map-by ppr:1:node)
    # The site's flags for mapping and binding replace Muster's, for the ranks. An agent always has the whole node.
    muster_mpirun_agents=("${binding[@]}")
    case " ${muster_mpirun_site[*]} " in *bind-to* | *:pe=*) binding=() ;; esac
    case " ${muster_mpirun_site[*]} " in *map-by*) ranks=() ;; esac
    muster_mpirun_ranks=("${binding[@]}" "${muster_mpirun_site[@]}")
    if [ $# -gt 0 ]; then
        muster_mpirun_ranks+=(--host "${slots// /,}" "${ranks[@]}")
        muster_mpirun_agents+=(--host "${hosts// /,}" "${agents[@]}")
    else
        muster_mpirun_ranks+=(--oversubscribe)
    fi
    [ -z "$muster_labels" ] || muster_mpirun_ranks+=(--tag-output)
    for name in "${muster_carried[@]}"; do
        [ -z "${!name+set}" ] || { muster_mpirun_ranks+=(-x "$name") && muster_mpirun_agents+=(-x "$name"); }
    done
}

# Builds the flags of MPICH (Hydra) for the hosts $@.
muster_hydra() {
    local hosts=$*
    muster_mpirun_ranks=(-genvall "${muster_mpirun_site[@]}")
    muster_mpirun_agents=(-genvall)
    if [ $# -gt 0 ]; then
        muster_mpirun_ranks+=(-hosts "${hosts// /,}" -ppn "$muster_ntasks_per_node")
        muster_mpirun_agents+=(-hosts "${hosts// /,}" -ppn 1)
    fi
    [ -z "$muster_labels" ] || muster_mpirun_ranks+=(-prepend-rank)
}
