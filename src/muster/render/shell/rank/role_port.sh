# The program of a role listens at its port, or at several in a row. One that is taken on this node is reported here, by
# its name. Ranks that share a node listen elsewhere.
muster_try=${MUSTER_ROLE_PORT:-0} muster_count=${MUSTER_ROLE_PORTS:-1}
[ "${muster_local_size:-1}" -eq 1 ] && [ "$muster_try" -ne 0 ] || muster_count=0
while [ "$muster_count" -gt 0 ]; do
    if muster_port_is_taken "$muster_try"; then
        read -r muster_here </proc/sys/kernel/hostname
        muster_stop \
            "port $muster_try of $muster_here, where role $MUSTER_ROLE is to listen, is taken by another program" \
            'submit again, or give the role another one with --port'
    fi
    muster_try=$((muster_try + 1)) muster_count=$((muster_count - 1))
done
