# How many tasks this node has, in Slurm's form "4(x2),3": inside an allocation, Slurm may spread the tasks in another
# way than the step asks for.
muster_left=$muster_node_rank
muster_ifs=$IFS
IFS=,
for muster_item in ${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-}}; do
    [ "$muster_left" -lt 0 ] || muster_local_size=${muster_item%%'('*}
    case $muster_item in
    *x*) muster_times=${muster_item#*x} ;;
    *) muster_times=1 ;;
    esac
    muster_left=$((muster_left - ${muster_times%')'}))
done
IFS=$muster_ifs
