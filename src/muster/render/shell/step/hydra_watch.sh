# Looks after MPICH's mpirun while it runs. Open MPI needs no such watch. $1: the file that takes the ranks' report.
muster_watch_hydra() {
    local first
    case $muster_mpirun_kind in *'Open MPI'* | *OpenRTE*) return ;; esac
    first=$(stat -c %s "$1" 2>/dev/null)
    muster_end_hydra "$$" "$1" "${first:-0}" </dev/null >/dev/null &
    muster_hydra_watcher=$!
}

# Ends the mpirun that the process $1 starts where it would wait for ever: the program that was to start its proxies on
# the nodes has failed, and nobody has read its status; or the report $2, behind its first $3 bytes, names a rank that
# failed, and mpirun waits for a proxy that called too late to hear of it. After ten minutes every proxy has called.
muster_end_hydra() {
    local pipe notes child='' starter starters trouble='' before='' size first=$3 offset=$3
    exec {pipe}<> <(:) {notes}>&2 2>/dev/null
    for _ in {1..300}; do
        read -rt 2 -u "$pipe"
        [ -n "$child" ] || muster_find_hydra "$1" || continue
        [ -d "/proc/$child" ] || return
        read -ra starters <"/proc/$child/task/$child/children"
        [ "$trouble" = rank ] || trouble=
        for starter in "${starters[@]}"; do
            [[ $(<"/proc/$starter/stat") != *') Z '* || $(<"/proc/$starter/stat") == *' 0' ]] || trouble=start
        done
        size=$(stat -c %s "$2")
        [ "${size:=0}" -ge "$offset" ] || { first=0 && offset=0; }
        ! tail -c "+$((offset + 1))" "$2" |
            grep -qE '^=   BAD TERMINATION |^(\[[0-9]+\] )?muster: rank [0-9]+ on [^ ]+ ended with status ' ||
                trouble=rank
        offset=$((size - 200 > first ? size - 200 : first)) # a line may be cut where it was looked at
        [ -z "$trouble" ] || [ "$before" = "$trouble" ] || { before=$trouble && continue; }
        case $trouble in
        start) printf 'muster: error: %s\n\nhint: %s\n' "mpirun's proxies could not be started on the nodes" \
            "its own lines are above; MPICH has to lie under $(dirname "$(command -v mpirun)") on every node" \
            >&"$notes" ;;
        rank) printf 'muster: mpirun waited on after a rank had failed: it was ended\n' >&"$notes" ;;
        *) continue ;;
        esac
        kill "${starters[@]}" "$child"
        return
    done
}

# Finds the mpirun among the children of $1. Result in $child.
muster_find_hydra() {
    local name
    for child in $(<"/proc/$1/task/$1/children"); do
        read -r name <"/proc/$child/comm"
        case $name in mpi*) return ;; esac
    done
    child=
    return 1
}
