# Each rank picks its own GPU by its local rank, so each rank has to see the GPUs of all ranks of its node.
muster_visible=@ANY_VISIBLE@
# shellcheck disable=SC2086  # split at its commas
muster_count=$(IFS=, && set -f && set -- $muster_visible && echo $#)
[ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] || muster_stop \
    "rank $muster_rank sees only the devices '$muster_visible', but its node has $muster_local_size ranks" \
    'ask for GPUs per node, not per task: remove --gpus-per-task, --gpu-bind and the variables that hide GPUs'
