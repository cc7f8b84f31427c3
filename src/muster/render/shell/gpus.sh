# GPUs are asked for, and each rank picks its own: it has to see those of all ranks of its node.
# How many items a comma-separated list has. Result in $muster_count.
muster_count_items() {
    muster_count=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do muster_count=$((muster_count + 1)); done
    IFS=$muster_ifs
}

if [ "${MUSTER_GPUS:-0}" -gt 0 ]; then
    muster_visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
    muster_count_items "$muster_visible"
    [ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] ||
        muster_stop "rank $muster_rank sees the devices '$muster_visible' and shares its node with $muster_local_size ranks" \
            'ask for the GPUs of the node, not of the task: no --gpus-per-task, --gpu-bind or CUDA_VISIBLE_DEVICES'
fi
