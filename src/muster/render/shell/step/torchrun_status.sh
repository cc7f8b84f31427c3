# Finds the exit status of the first rank that failed, in the reports $@: torchrun itself ends with 1. Each node reports
# its first failure: the earliest one that torchrun did not cause itself (SIGTERM) is the job's.
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
