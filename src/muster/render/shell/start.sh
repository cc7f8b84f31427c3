# If the node does not have the working directory, Slurm starts the task in /tmp.
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

# Compares the start with the plan: a rank that runs alone, or all ranks on one core, is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" 'the command may start another launcher: remove it from the command'
[ "$muster_nodes" -lt 2 ] || [ -n "${MUSTER_LOCAL_NNODES:-}" ] || case $muster_address in
'' | localhost | localhost.* | 127.*) muster_stop "the address of rank 0 is '$muster_address', which means another host on every node" 'omit --master-addr, or name a host' ;;
esac
case $muster_address in
*:*:*) ;; # IPv6
*:*) muster_stop "MASTER_ADDR '$muster_address' holds a port" 'give the host with --master-addr and the port with --master-port' ;;
esac
