# One torchrun agent on each node. Whether it hosts the meeting point is said, so no name has to be recognised.
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
read -r muster_here </proc/sys/kernel/hostname
muster_host=0
[ "$muster_node_rank" -ne 0 ] || muster_host=1
[ "$muster_host" -eq 0 ] || ! muster_port_is_taken "$muster_port" || muster_stop \
    "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
# A variable, not an option: a torch that is too old to know it passes over it.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${MUSTER_GRACE:-10}"
# torchrun would set 1 when the variable is missing; each rank finds its own share.
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS=1 MUSTER_OMP=own
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="\${rank}: "
