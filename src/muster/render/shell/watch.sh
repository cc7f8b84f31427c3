# srun gives its own status to a step that was ended (143, 137) whatever the first rank said: read what it reports.
# Passes every line on; prints the status of the first rank that failed, and ends the others.
muster_watch() {
    trap '' INT TERM
    local line status='' seen='' pid='' ending=''
    while IFS= read -r line; do
        case $line in
        'muster-status '*)
            status=${line#muster-status }
            continue
            ;;
        'muster-srun '*)
            pid=${line#muster-srun }
            continue
            ;;
        esac
        printf '%s\n' "$line" >&9
        [ -n "$seen" ] || muster_status_in "$line"
        if [ -n "$seen" ] && [ -z "$ending" ]; then
            # Its sleep may outlive us: whoever reads our output must not wait for it.
            muster_end_step "$pid" >/dev/null 2>&1 7>&- 8>&- 9>&- &
            ending=$!
        fi
    done
    [ -z "$ending" ] || kill -KILL "$ending" 2>/dev/null
    printf '%s\n' "${seen:-$status}"
}

# End the step of the srun whose pid is $1: SIGTERM, and SIGKILL a grace time later. An ending by srun itself
# (--kill-on-bad-exit) sends SIGKILL only after the cluster's KillWait, and lets nobody else's through until then.
muster_end_step() {
    local step
    step=$(scontrol --oneliner show step "$SLURM_JOB_ID" | grep -E "SrunHost:Pid=[^ ]*:$1( |$)")
    step=${step#StepId=}
    step=${step%% *}
    # The controller does not answer: srun's own way.
    [ -n "$step" ] || { kill "$1" && return; }
    scancel --quiet --signal=TERM "$step"
    sleep "$MUSTER_GRACE"
    scancel --quiet --signal=KILL "$step"
}

# The status in one line of srun's, if it tells of a task's end. Result in $seen.
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

# Runs an srun line; result in $muster_status. The ranks' output does not pass through here: srun's own words do.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        {
            {
                (printf 'muster-srun %s\n' "$BASHPID" >&7 && exec "$@" 2>&7 >&8)
                printf 'muster-status %s\n' "$?" >&7
            } 7>&1 | muster_watch
        }
    )
} 8>&1 9>&2
