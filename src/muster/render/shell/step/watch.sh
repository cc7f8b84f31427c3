# Passes srun's messages on, and prints the exit status of the first rank that failed (srun's own is that of the step)
# and the nodes that srun calls failed. The other ranks get SIGTERM, and SIGKILL $1 seconds later: --kill-on-bad-exit
# would wait for KillWait, and block.
muster_watch() {
    trap '' INT TERM HUP
    local line status='' seen='' pid='' nodes=''
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        'muster-status '*) status=${line#muster-status } && continue ;;
        'muster-srun '*) pid=${line#muster-srun }; "${muster_tell:-:}" starter "$pid"; continue ;;
        esac
        printf '%s\n' "$line" >&9
        "${muster_tell:-:}" srun "$line"
        case $line in 'srun: error: Node failure on '*) nodes+=" ${line##* }" ;; esac
        [ -z "$seen" ] || continue
        muster_status_in "$line"
        [ -z "$seen" ] || { muster_end_step TERM "$pid" && muster_end_step KILL "$pid" "$1"; }
    done
    [ -z "$seen" ] || { kill -KILL "$!" && wait "$!"; } 2>/dev/null
    # srun itself was killed, so its ranks have to be ended here.
    [ -n "$seen" ] || [ "${status:-0}" -ne 137 ] || muster_end_step KILL "$pid"
    printf '%s\n' "${seen:-$status}$nodes"
}

# Sends the signal $1 to the step of the srun $2, after $3 seconds; where no controller answers, SIGTERM to srun. No
# process sleeps here: a reader of this output would have to wait for it.
muster_end_step() {
    (
        [ -z "${3:-}" ] || read -rt "$3" <> <(:)
        step=$(scontrol --oneliner show step "${muster_part_job:-$SLURM_JOB_ID}" |
            sed -nE "s/^StepId=([^ ]*) .*SrunHost:Pid=$(uname -n | cut -d. -f1)(\.[^ :]*)?:$2( .*|$)/\\1/p")
        [ -n "$step" ] || exec kill "$2"
        exec scancel --quiet --signal="$1" "$step"
    ) </dev/null >/dev/null 2>&1 7>&- 8>&- 9>&- &
}

# Reads the exit status from one line of srun, if the line reports the end of a task. Result in $seen.
muster_status_in() {
    local what
    local -A signals=([Hangup]=1 [Interrupt]=2 [Quit]=3 ['Illegal instruction']=4 ['Trace/breakpoint trap']=5
        [Aborted]=6
        ['Bus error']=7 ['Floating point exception']=8 [Killed]=9 ['Out Of Memory']=9 ['User defined signal 1']=10
        ['Segmentation fault']=11 ['User defined signal 2']=12 ['Broken pipe']=13 ['Alarm clock']=14 [Terminated]=15
        ['CPU time limit exceeded']=24 ['File size limit exceeded']=25)
    [[ $1 != 'srun: interrupt '* ]] || seen=130
    # Its node does not see the folder of the logs, for example. The other ranks would wait for it; srun's own status is
    # then that of the others: 0 (22.05).
    [[ ! $1 =~ ^srun:\ error:\ tasks?\ [0-9,-]+\ launch\ failed: ]] || seen=1
    [[ $1 =~ ^srun:\ error:\ [^:]+:\ tasks?\ [0-9,-]+:\ (.+)$ ]] || return 0
    what=${BASH_REMATCH[1]%' (core dumped)'}
    [[ $what != 'Exited with exit code '* ]] || seen=${what##* }
    [ -z "${signals[$what]:-}" ] || seen=$((128 + ${signals[$what]}))
}

# Runs the srun command $@. Results in $muster_status and $muster_failed_nodes. The ranks' output does not pass here.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        trap '' USR1
        {
            (trap - USR1 && printf 'muster-srun %s\n' "$BASHPID" >&7 && exec "$@" 2>&7 >&8)
            printf 'muster-status %s\n' "$?" >&7
        } 7>&1 2>/dev/null | muster_watch "$((${muster_keeper:+1+}MUSTER_GRACE))"
    )
    muster_failed_nodes=${muster_status#"${muster_status%% *}"} muster_status=${muster_status%% *}
    : "${muster_status:=143}" # a signal to the whole group also ended the reader of the messages
} 8>&1 9>&2
