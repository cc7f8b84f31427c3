# Hydra has a status of its own when a rank failed; the rank has said its, in one of the files. Result in $muster_status.
muster_hydra_status() {
    local found=
    [ "$muster_status" -eq 0 ] || found=$(sed -n 's/^\(\[[0-9]*\] \)\{0,1\}muster: rank [0-9]* on [^ ]* ended with status //p' "$@" | head -n 1)
    muster_status=${found:-$muster_status}
}
