# Finds the exit status of the rank that failed, in the files $@: Hydra ends with another status, and Open MPI with none
# where the script ends the ranks. Result in $muster_status.
muster_hydra_status() {
    local found=
    [ -z "${muster_rank_watch:-}" ] || kill -USR1 "$muster_rank_watch" 2>/dev/null
    if [ "$muster_status" -ne 0 ] || [ -n "${muster_rank_watch:-}" ]; then
        found=$(LC_ALL=C grep -hm 1 '^\(\[[0-9,]*\]\(<std[a-z]*>:\| \)\)\{0,1\}muster: rank [0-9]* on [^ ]* ended with status ' "$@")
        found=${found##* }
    fi
    muster_status=${found:-$muster_status}
}
