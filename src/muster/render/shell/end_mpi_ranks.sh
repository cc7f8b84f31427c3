# shellcheck disable=SC2034,SC2154  # other parts of the script set and use these
# Gives the ranks of mpirun their grace time. Open MPI itself sends SIGKILL one second after SIGTERM, and Hydra at once.
# So neither is told of a rank that failed: the shell of that rank reports it, and this script ends the others.

# Ends the ranks of the run $1 of the job $2 on one node: SIGTERM, and $3 seconds later SIGKILL.
muster_ender=$(
    cat <<'MUSTER_TEXT'
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
muster_run=$1 muster_job=$2 muster_until=$(($(date +%s) + $3)) muster_signal=TERM
# The processes of the run that have a rank; the shells around them have none.
muster_find_ranks() {
    # shellcheck disable=SC2046  # names without a space
    muster_ranks=$(grep -lzs '^RANK=' /dev/null $(grep -lzxsF "MUSTER_STEP=$muster_run" /dev/null \
        $(grep -lzxsF "MUSTER_JOB=$muster_job" /dev/null /proc/[0-9]*/environ)))
    [ -n "$muster_ranks" ]
}
while muster_find_ranks; do
    [ "$(date +%s)" -lt "$muster_until" ] || muster_signal=KILL
    for muster_rank in ${muster_signal:+$muster_ranks}; do
        muster_pid=${muster_rank#/proc/} muster_pid=${muster_pid%/environ}
        muster_parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$muster_pid/status" 2>/dev/null)
        if [ "$muster_signal" = KILL ]; then
            kill -KILL "$muster_pid"
        elif ! printf '%s\n' "$muster_ranks" | grep -qx "/proc/$muster_parent/environ"; then
            kill -TERM "$muster_parent" "$muster_pid" # the shell first: it then reports no failure
        fi
    done 2>/dev/null
    muster_signal=
    sleep 0.2
done
MUSTER_TEXT
)

export MUSTER_ENDS_RANKS=1 OMPI_MCA_orte_abort_on_non_zero_status=0

# Starts a process that waits in the file $1 for the report of a rank that failed, and then ends the others.
muster_watch_ranks() {
    local starter=$BASHPID failed='^(\[[0-9,]*\](<std[a-z]*>:| ))?muster: rank [0-9]+ on [^ ]+ ended with status '
    # Hydra waits for ever for daemons that srun could not start. Lines of ranks have a label in front.
    [ "$muster_label" -eq 0 ] || failed+='|^srun: error: [^: ]+: tasks? [0-9,-]+: '
    (
        trap - INT HUP
        # Who reads what the ranks say waits for the end of every process that holds its pipe.
        for open in /proc/"$BASHPID"/fd/*; do
            open=${open##*/}
            [ "$open" -le 2 ] || [ "$open" -eq 255 ] || eval "exec $open>&-"
        done
        exec {pipe}<> <(:) {report}< <(exec tail -s 0.2 -n +1 -F "$1" 2>/dev/null)
        tail=$!
        # Muster's keeper sends SIGTERM to this process, and not to mpirun, where the job is to end.
        trap 'kill "$tail" "$reader" 2>/dev/null; exit' USR1
        trap 'kill "$reader" 2>/dev/null' TERM
        grep -qm 1 -E "$failed" <&"$report" &
        reader=$!
        wait "$reader"
        kill "$tail"
        trap '' TERM
        muster_end_ranks_of_nodes
        read -rt 2 -u "$pipe"
        muster_end_mpirun "$starter"
    ) </dev/null >/dev/null 2>&1 &
    muster_rank_watch=$!
}

# Ends the ranks on every node of the job, in a step beside that of mpirun's daemons; without Slurm, on this host.
muster_end_ranks_of_nodes() {
    local words=(/bin/sh -c "$muster_ender" muster "$MUSTER_STEP" "$MUSTER_JOB" "$MUSTER_GRACE")
    if [ -z "${SLURM_JOB_NODELIST:-}" ]; then
        "${words[@]}"
    else
        timeout "$((MUSTER_GRACE + 30))" srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --nodelist="$SLURM_JOB_NODELIST" \
            --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --gres=none --mpi=none --input=none \
            --quiet --export=NONE --chdir=/ "${words[@]}"
    fi
}

# Ends the mpirun that the process $1 has started, where it outlives its ranks.
muster_end_mpirun() {
    local pid name
    # shellcheck disable=SC2013  # numbers on one line
    for pid in $(cat "/proc/$1/task/$1/children"); do
        read -r name <"/proc/$pid/comm"
        case $name in mpi* | orterun | prterun) kill -TERM "$pid" ;; esac
    done
}
