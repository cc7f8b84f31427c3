# torchrun ends with 1 whatever its ranks said; its report names the first failure of each node. The earliest
# one that was not an ending by torchrun itself (SIGTERM) is the job's. Result in $muster_status.
muster_torchrun_status() {
    local found
    [ "$muster_status" -ne 0 ] || return 0
    found=$(awk '
        /Root Cause \(first observed failure\)/ { root = 1 }
        root && / time +: / { when = $3 }
        root && / exitcode +: / { print ($3 == -15), when, $3; root = 0 }
    ' "$@" 2>/dev/null | sort | head -n 1)
    found=${found##* }
    case $found in
    -*) muster_status=$((128 + ${found#-})) ;;
    [1-9]*) muster_status=$found ;;
    esac
}
