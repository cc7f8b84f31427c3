# An mpirun that has lost a daemon may wait for it until the job's time is over: Open MPI hears nothing of a node that died or
# hangs. Slurm ends the step of the daemons when it calls one of its nodes dead, and the srun of that step ends with it.

# Looks, while mpirun runs, after the srun of its daemons.
muster_watch_daemons() {
    muster_end_waiting_mpirun "${muster_starting:-$$}" </dev/null >/dev/null &
    muster_daemons_watcher=$!
}

# Ends the mpirun that process $1 starts, if it has outlived the srun of its daemons by MUSTER_GRACE seconds: so long may ranks
# save where Slurm ends the whole job. Reads /proc, and asks nobody.
muster_end_waiting_mpirun() {
    trap - TERM INT HUP USR1
    local pipe notes mpirun='' starter='' since=0 state=''
    exec {pipe}<> <(:) {notes}>&2 2>/dev/null
    while read -rt 1 -u "$pipe" || [ -d "/proc/$1" ]; do
        if [ -z "$starter" ]; then
            muster_find_daemons "$1"
            since=$SECONDS
            continue
        fi
        [ -d "/proc/$mpirun" ] || return
        state='' && read -r state <"/proc/$starter/stat"
        case $state in
        '' | *') Z '*) ;;
        *) since=$SECONDS && continue ;;
        esac
        [ $((SECONDS - since)) -gt "${MUSTER_GRACE:-10}" ] || continue
        printf "muster: Slurm ended the step of mpirun's daemons, and mpirun waited on: it was ended\n" >&"$notes"
        kill "$mpirun" && read -rt 3 -u "$pipe"
        kill -KILL "$mpirun"
        return
    done
}

# Finds the mpirun among the children of $1, and the srun that it started. Results in $mpirun and $starter.
muster_find_daemons() {
    local children name
    read -ra children <"/proc/$1/task/$1/children"
    for mpirun in "${children[@]}"; do
        read -r name <"/proc/$mpirun/comm"
        case $name in mpi* | orte* | prte*) ;; *) continue ;; esac
        read -ra children <"/proc/$mpirun/task/$mpirun/children"
        for starter in "${children[@]}"; do
            read -r name <"/proc/$starter/comm"
            [ "$name" != srun ] || return 0
        done
    done
    starter=''
}
