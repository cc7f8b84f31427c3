# Reads srun's messages, passes every line on, and prints the exit status of the first rank that failed: srun's own
# status is that of the ended step (143, 137). After the first failure the other ranks get SIGTERM, and SIGKILL $1
# seconds later. srun's --kill-on-bad-exit would send SIGKILL only after the cluster's KillWait, and blocks other
# signals until then. Nothing sleeps here, since a reader of this output would have to wait for it.
muster_watch() {
    trap '' INT TERM HUP
    local line part='' status='' seen='' pid='' deadline='' more=1
    while [ -n "$more" ]; do
        [ -z "$deadline" ] || [ "$SECONDS" -lt "$deadline" ] || { muster_end_step KILL "$pid" && deadline=; }
        line=
        if IFS= read -r ${deadline:+-t $((deadline - SECONDS))} line; then
            line=$part$line part=
        elif [ "$?" -gt 128 ]; then
            part=$part$line && continue
        else
            line=$part$line more=
            [ -n "$line" ] || break
        fi
        case $line in
        'muster-status '*) status=${line#muster-status } && continue ;;
        'muster-srun '*) pid=${line#muster-srun } && continue ;;
        esac
        printf '%s\n' "$line" >&9
        [ -z "$seen" ] || continue
        muster_status_in "$line"
        [ -z "$seen" ] || { muster_end_step TERM "$pid" && deadline=$((SECONDS + $1)); }
    done
    # srun itself was killed, so its ranks have to be ended here.
    [ -n "$seen" ] || [ "${status:-0}" -ne 137 ] || muster_end_step KILL "$pid"
    printf '%s\n' "${seen:-$status}"
}

# Sends the signal $1 to the step of the srun with the pid $2. If the controller does not answer, srun gets SIGTERM.
muster_end_step() {
    (
        step=$(scontrol --oneliner show step "$SLURM_JOB_ID" | grep -E "SrunHost:Pid=[^ ]*:$2( |$)")
        step=${step#StepId=}
        step=${step%% *}
        [ -n "$step" ] || exec kill "$2"
        exec scancel --quiet --signal="$1" "$step"
    ) </dev/null >/dev/null 2>&1 7>&- 8>&- 9>&- &
}

# Reads the exit status from one line of srun, if the line reports the end of a task. Result in $seen.
muster_status_in() {
    local what
    case $1 in
    'srun: interrupt '*) seen=130 ;;
    esac
    [[ $1 =~ ^srun:\ error:\ [^:]+:\ tasks?\ [0-9,-]+:\ (.*)$ ]] || return 0
    what=${BASH_REMATCH[1]}
    case $what in
    'Exited with exit code '*) seen=${what##* } ;;
    Hangup*) seen=129 ;;
    Interrupt*) seen=130 ;;
    Quit*) seen=131 ;;
    'Illegal instruction'*) seen=132 ;;
    'Trace/breakpoint trap'*) seen=133 ;;
    Aborted*) seen=134 ;;
    'Bus error'*) seen=135 ;;
    'Floating point exception'*) seen=136 ;;
    Killed* | 'Out Of Memory'*) seen=137 ;;
    'User defined signal 1'*) seen=138 ;;
    'Segmentation fault'*) seen=139 ;;
    'User defined signal 2'*) seen=140 ;;
    'Broken pipe'*) seen=141 ;;
    'Alarm clock'*) seen=142 ;;
    Terminated*) seen=143 ;;
    'CPU time limit exceeded'*) seen=152 ;;
    'File size limit exceeded'*) seen=153 ;;
    esac
}

# Runs the srun command $@. Result in $muster_status. Only srun's own messages pass through here, not the ranks' output.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        {
            {
                (printf 'muster-srun %s\n' "$BASHPID" >&7 && exec "$@" 2>&7 >&8)
                printf 'muster-status %s\n' "$?" >&7
            } 7>&1 2>/dev/null | muster_watch "$((${muster_keeper:+1+}MUSTER_GRACE))"
        }
    )
    : "${muster_status:=143}" # a signal to the whole group also ended the reader of the messages
} 8>&1 9>&2
