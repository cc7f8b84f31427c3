# Sets MUSTER_ADDRESS, where the name of rank 0's host is not enough. $1: `numeric` (its IP address) or `interface`
# (its address on the interface $2).
muster_choose_address() {
    local name
    muster_first_host "$SLURM_JOB_NODELIST"
    name=$muster_first${MUSTER_HOST_SUFFIX:-}
    case $1 in
    numeric) MUSTER_ADDRESS=$(getent ahostsv4 "$name" | awk 'NR == 1 { print $1 }') ;;
    interface)
        MUSTER_ADDRESS=$(srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist="$muster_first" \
            ip -o -4 address show dev "$2" | awk '{ sub("/.*", "", $4); print $4; exit }')
        ;;
    esac
    [ -n "$MUSTER_ADDRESS" ] || muster_stop "the host of rank 0, $name, has no address (${*})" 'give an address with --master-addr'
    export MUSTER_ADDRESS
}
