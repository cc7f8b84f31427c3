# One program, Muster's supervisor, decides what becomes of this job. It starts this script again for each attempt, as
# "bash FILE attempt NUMBER RUN OWN [LOST]": LOST are nodes that the job has lost. "sbatch FILE link N RUN" begins link
# N of the job.
# shellcheck disable=SC2034,SC2154  # other parts of the script set and use these
muster_number='' muster_link=1
case ${1:-} in
link) muster_link=$2 muster_chain_run=$3 ;;
attempt)
    muster_number=$2 muster_chain_run=$3 muster_own=$4
    [ "$#" -lt 5 ] || muster_lost=$5
    read -r muster_supervisor muster_unit <<<"$MUSTER_SUPERVISOR"
    unset MUSTER_SUPERVISOR
    # The ranks need no way to the script.
    case $0 in /dev/fd/*) eval "exec ${0#/dev/fd/}<&-" ;; esac
    ;;
esac

# Becomes the supervisor in the folder $2, by the Python $1 or another one. The words after them are its rules. In an
# attempt it goes on with the attempt.
muster_supervise() {
    local folder=$2 file=$0
    if [ -n "$muster_number" ]; then
        trap : USR1
        muster_place=() muster_tell=muster_tell_supervisor
        [ -z "${MUSTER_PLACED:-}" ] || muster_place=("--nodelist=$SLURM_JOB_NODELIST")
        unset MUSTER_PLACED
        return
    fi
    # A job that was told to end meanwhile starts no ranks. A request to save is heard as soon as the supervisor
    # listens.
    [ -z "${muster_interrupted:-}" ] || exit "$muster_interrupted"
    trap '' USR1
    # A script that lies in memory has no name that another process could open.
    [ -r "$file" ] || { exec {muster_file}<"/proc/$$/fd/255" && file=/dev/fd/$muster_file; }
    muster_become "$1" "$folder" "file=$file" "run=$muster_run_dir" "logs=${muster_logs:-}" \
        "keeps=${muster_keeps_logs:-}" "link=$muster_link" "nodes=$muster_nodes" \
        "tasks=$muster_ntasks_per_node" "${@:3}"
    trap - USR1
    case " $* " in *' spares='*) muster_stop "spare nodes need Python 3.6 or later and $folder on $(uname -n)" \
        'omit --spares' ;; esac
    printf 'muster: warning: %s\n' \
        "the rules of this job need Python 3.6 or later and $folder on $(uname -n): its ranks start once" >&2
}

# Tells the supervisor the words $@.
muster_tell_supervisor() { printf 'muster-tells %s %s\n' "$muster_unit" "$*" >>"$muster_supervisor"; } 2>/dev/null
