# A node without the Python of the environment would find another one.
[ -x "$MUSTER_PYTHON" ] || {
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop "the node $muster_here does not see the Python of the environment, $MUSTER_PYTHON" \
        'put the environment on a file system that the compute nodes see, or --stage-env'
}
