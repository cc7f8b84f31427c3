# An address that was asked for, or looked up, has to mean the same host on every node.
[ "$muster_nodes" -lt 2 ] || [ -n "${MUSTER_LOCAL_NNODES:-}" ] || case $muster_address in
'' | localhost | localhost.* | 127.*)
    muster_stop "the address of rank 0 is '$muster_address', which means another host on every node" \
        'omit --master-addr, or name a host' ;;
esac
case $muster_address in
*:*:*) ;; # IPv6
*:*) muster_stop "MASTER_ADDR '$muster_address' holds a port" 'give it with --master-port, and the host alone' ;;
esac
