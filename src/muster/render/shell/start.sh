# How many items a comma-separated list has. Result in $muster_count.
muster_count_items() {
    muster_count=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do muster_count=$((muster_count + 1)); done
    IFS=$muster_ifs
}

# Slurm starts a task elsewhere, in /tmp, where the node does not have the directory.
[ -z "${MUSTER_DIRECTORY:-}" ] || cd "$MUSTER_DIRECTORY" 2>/dev/null || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the working directory $MUSTER_DIRECTORY" \
        'use a file system that the compute nodes see, or --chdir'
}
[ -z "${MUSTER_PYTHON:-}" ] || [ -x "$MUSTER_PYTHON" ] || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the Python of the environment, $MUSTER_PYTHON" \
        'put the environment on a file system that the compute nodes see, or --stage-env'
}

# Is this the start that was planned? A world of one, or every rank on one core, is found here and not in a week.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned and the launcher started $muster_size" 'another launcher may stand in between: take it out of the command'
[ "$muster_nodes" -lt 2 ] || [ -n "${MUSTER_LOCAL_NNODES:-}" ] || case $muster_address in
'' | localhost | localhost.* | 127.*) muster_stop "the address of rank 0 is '$muster_address', which every node takes for itself" 'leave --master-addr away, or name a host' ;;
esac
case $muster_address in
*:*:*) ;; # IPv6
*:*) muster_stop "MASTER_ADDR '$muster_address' holds a port" 'give the host with --master-addr and the port with --master-port' ;;
esac
if [ "${MUSTER_GPUS:-0}" -gt 0 ]; then
    muster_visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
    muster_count_items "$muster_visible"
    [ "$muster_count" -eq 0 ] || [ "$muster_count" -ge "$muster_local_size" ] || [ "${MUSTER_VISIBILITY:-all}" = one ] ||
        muster_stop "rank $muster_rank sees the devices '$muster_visible' and shares its node with $muster_local_size ranks" \
            'ask for the GPUs of the node, not of the task: no --gpus-per-task, --gpu-bind or CUDA_VISIBLE_DEVICES'
fi

muster_own_mask
muster_threads_of_mask "$muster_cpus" "$muster_local_size" "${MUSTER_CPUS:-0}"
[ "${MUSTER_CPUS:-1}" -le 1 ] || [ "$muster_cpu_count" -ne 1 ] || muster_stop \
    "rank $muster_rank may use one CPU (number $muster_cpus) of the $MUSTER_CPUS that were asked for" \
    'the step was started without --cpus-per-task: let Muster write the srun line'
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS="$muster_threads"

if [ "$muster_rank" -eq 0 ] && [ -z "${MUSTER_PORT_CHOSEN:-}" ] && muster_port_is_taken "$muster_port"; then
    muster_stop "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
fi

export RANK="$muster_rank" WORLD_SIZE="$muster_size" LOCAL_RANK="$muster_local_rank" LOCAL_WORLD_SIZE="$muster_local_size"
export GROUP_RANK="$muster_node_rank" GROUP_WORLD_SIZE="$muster_nodes" NODE_RANK="$muster_node_rank"
export ROLE_NAME=default ROLE_RANK="$muster_rank" ROLE_WORLD_SIZE="$muster_size"
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port"
export TORCHELASTIC_RUN_ID="$muster_id" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
# An agent's store that is promised and not there makes rank 0 wait for ever.
unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE

if [ "${MUSTER_VISIBILITY:-all}" = one ]; then
    for muster_name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES; do
        eval "muster_visible=\${$muster_name:-}"
        muster_index=0
        muster_ifs=$IFS
        IFS=,
        for muster_device in $muster_visible; do
            [ "$muster_index" -ne "$muster_local_rank" ] || export "$muster_name=$muster_device"
            muster_index=$((muster_index + 1))
        done
        IFS=$muster_ifs
    done
fi
