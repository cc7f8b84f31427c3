# An mpirun that has lost a daemon may wait for it until the job's time is over: Open MPI hears nothing of a node that
# died or hangs. Slurm ends the step of the daemons when it calls one of its nodes dead, and the srun of that step ends
# with it.

# Looks, while mpirun runs, after the srun of its daemons.
muster_watch_daemons() {
    muster_end_waiting_mpirun "$$" </dev/null >/dev/null &
    muster_daemons_watcher=$!
}

# Ends the mpirun that process $1 starts, if it outlives the srun of its daemons: at once where Slurm has taken a node
# out of the job, and otherwise after MUSTER_GRACE seconds, for ranks may save while Slurm ends the job. Reads /proc;
# asks Slurm once.
muster_end_waiting_mpirun() {
    trap - TERM INT HUP USR1
    local pipe notes mpirun='' starter='' since=0 patience='' state children
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
        [ -n "$patience" ] || ! muster_has_lost_node || patience=0
        : "${patience:=${MUSTER_GRACE:-10}}"
        [ $((SECONDS - since)) -ge "$patience" ] || continue
        printf "muster: Slurm ended the step of mpirun's daemons, and mpirun waited on: it was ended\n" >&"$notes"
        # It aborts already, and heeds no other signal. Its ranks on this host are the leaders of their groups.
        read -ra children <"/proc/$mpirun/task/$mpirun/children"
        kill -KILL "$mpirun" "${children[@]/#/-}"
        return
    done
}

# Whether Slurm has taken a node of the ranks out of this job.
muster_has_lost_node() {
    local state nodes name
    state=$(timeout 10 scontrol --oneliner show job "$SLURM_JOB_ID") || return 1
    nodes=${state#* NodeList=}
    nodes=" $(scontrol show hostnames "${nodes%% *}" | tr '\n' ' ')"
    for name in ${MUSTER_NODES:-}; do
        case $nodes in *" $name "*) ;; *) return 0 ;; esac
    done
    return 1
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
