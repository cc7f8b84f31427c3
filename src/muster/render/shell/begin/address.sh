# Sets MUSTER_ADDRESS, where the name of rank 0's host is not enough. numeric=yes: its IP address. interface: its
# address on that interface.
muster_choose_address() {
    local host muster_numeric muster_interface=
    muster_take 'muster_choose_address: numeric interface' "$@"
    muster_first_host "$SLURM_JOB_NODELIST"
    host=$muster_first${MUSTER_HOST_SUFFIX:-}
    if [ -n "$muster_interface" ]; then
        MUSTER_ADDRESS=$(srun --overlap ${muster_part:+"--het-group=$muster_part"} --mpi=none --nodes=1 --ntasks=1 \
            --nodelist="$muster_first" \
            ip -o -4 address show dev "$muster_interface" | awk '{ sub("/.*", "", $4); print $4; exit }')
    else
        MUSTER_ADDRESS=$(getent ahostsv4 "$host" | awk 'NR == 1 { print $1 }')
    fi
    [ -n "$MUSTER_ADDRESS" ] || muster_stop "the host of rank 0, $host, has no address ($*)" \
        'give an address with --master-addr'
    export MUSTER_ADDRESS
}
