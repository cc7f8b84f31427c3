# Each rank picks its own GPU by its local rank, so each rank has to see the GPUs of all ranks of its node.
# Counts the items of the comma-separated list $1. Result in $muster_count.
muster_count_items() {
    muster_count=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do muster_count=$((muster_count + 1)); done
    IFS=$muster_ifs
}

if [ "${MUSTER_GPUS:-0}" -gt 0 ]; then
    muster_visible=@ANY_VISIBLE@
    muster_count_items "$muster_visible"
    [ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] ||
        muster_stop "rank $muster_rank sees only the devices '$muster_visible', but its node has $muster_local_size ranks" \
            'ask for GPUs per node, not per task: remove --gpus-per-task, --gpu-bind and the variables that hide GPUs'
fi
