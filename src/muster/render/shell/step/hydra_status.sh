# Finds the exit status of the rank that failed, in the files $@: Hydra itself ends with another status. Result in
# $muster_status.
muster_hydra_status() {
    local found=
    [ -z "${muster_hydra_watcher:-}" ] || kill "$muster_hydra_watcher" 2>/dev/null
    [ "$muster_status" -eq 0 ] ||
        found=$(sed -n 's/^\(\[[0-9]*\] \)\{0,1\}muster: rank [0-9]* on [^ ]* ended with status //p' "$@" | head -n 1)
    muster_status=${found:-$muster_status}
}
