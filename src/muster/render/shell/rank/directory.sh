# If the node does not have the working directory, Slurm starts the task in /tmp.
[ -z "${MUSTER_DIRECTORY:-}" ] || cd "$MUSTER_DIRECTORY" 2>/dev/null || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the working directory $MUSTER_DIRECTORY" \
        'use a file system that the compute nodes see, or --chdir'
}
