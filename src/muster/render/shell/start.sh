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
