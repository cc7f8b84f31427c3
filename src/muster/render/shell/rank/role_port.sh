# The program of a role listens at its port. A port that is taken on this node is reported here, by its name.
if [ "${muster_local_size:-1}" -eq 1 ] && muster_port_is_taken "${MUSTER_ROLE_PORT:-0}"; then
    read -r muster_here </proc/sys/kernel/hostname
    muster_stop \
        "port $MUSTER_ROLE_PORT of $muster_here, where role $MUSTER_ROLE is to listen, is taken by another program" \
        'submit again, or give the role another one with --port'
fi
