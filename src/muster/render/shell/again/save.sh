# A job whose ranks save before it ends: Slurm tells this script, and this script tells the ranks, whoever started them.

# Prepares it: so many seconds before the time limit the ranks get the signal. by=clock: Slurm does not tell this script
# of the limit, and a process beside it looks at the clock.
muster_save_before() {
    local muster_seconds muster_signal muster_by=
    muster_take 'muster_save_before: seconds signal by' "$@"
    muster_save_ahead=$muster_seconds muster_save_signal=$muster_signal muster_saved='' muster_save_asked=''
    trap 'muster_save_asked=1; [ -z "${muster_heard:-}" ] || muster_save' USR1
    [ -n "$muster_by" ] || return 0
    muster_await_limit "$$" "$muster_seconds" </dev/null >/dev/null 2>&1 &
    muster_clock=$!
}

# Ends what muster_save_before has started.
muster_end_saves() { [ -z "${muster_clock:-}" ] || kill "$muster_clock" 2>/dev/null; }

# Prints when the time of the job is over, in seconds since 1970; nothing where there is no limit, or Slurm does not tell it.
muster_find_end() {
    local state end
    state=$(timeout 10 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null)
    end=${state#* EndTime=}
    [ "$end" = "$state" ] || date -d "${end%% *}" +%s 2>/dev/null
}

# Sends USR1 to the script, $1, when $2 seconds are left. The limit may have been moved: it is then asked for again.
muster_await_limit() {
    trap - TERM INT HUP USR1
    local end now pipe
    exec {pipe}<> <(:)
    while end=$(muster_find_end) && [ -n "$end" ]; do
        printf -v now '%(%s)T' -1
        [ $((end - now)) -gt "$2" ] || { kill -USR1 "$1" && return; }
        read -rt $((end - now - $2)) -u "$pipe"
        kill -0 "$1" 2>/dev/null || return
    done
}

# Runs the command $@, which leaves its status in $muster_status, and hears signals meanwhile: bash runs a trap only while
# it waits for a process in the background.
muster_hear() {
    : >"$muster_ended"
    {
        muster_starting=$BASHPID
        trap - INT QUIT # a process in the background would ignore them, and its children too
        trap : INT TERM HUP USR1
        "$@"
        printf '%s\n' "$muster_status" >"$muster_ended"
    } <&0 &
    muster_heard=$!
    [ -z "$muster_save_asked" ] || muster_save # somebody asked before there were ranks
    while kill -0 "$muster_heard" 2>/dev/null; do
        wait "$muster_heard"
        muster_status=$?
    done
    muster_heard=
    [ ! -s "$muster_ended" ] || read -r muster_status <"$muster_ended"
}

# Tells the ranks to save. How many were told stands in the log and in RUN/saves: attempt, time, reason, ranks, told,
# signal, and the sentence.
# The reason stands in $muster_saved where a rank handles the signal.
muster_save() {
    local ranks told here got now reason words pause
    muster_save_asked=
    # Ranks that have just started may have no handler yet.
    for pause in 1 2 4 8 0; do
        ranks=0 told=0
        while read -r here got; do
            ranks=$((ranks + here)) told=$((told + got))
        done < <(muster_signal_nodes | sed -n 's/^@told //p')
        [ "$told" -eq 0 ] && kill -0 "$muster_heard" 2>/dev/null || break
        sleep "$pause"
    done
    muster_find_save_reason
    case $reason in
    cancel) words="before it was cancelled" ;;
    limit) words="before the time limit" ;;
    preemption) words="on preemption" ;;
    *) words="when asked to" ;;
    esac
    if [ "$told" -gt 0 ]; then
        muster_saved=$reason
        muster_save_words="$told of $ranks ranks got SIG$muster_save_signal $words"
        printf 'muster: %s\n' "$muster_save_words" >&2
    else
        muster_save_words="no rank handles SIG$muster_save_signal: none was told to save $words"
        printf 'muster: warning: %s\n\nhint: %s\n' "$muster_save_words" \
            "the script has to set a handler for SIG$muster_save_signal, or --save-signal names another signal" >&2
    fi
    [ -n "${muster_logs:-}" ] || return 0
    printf -v now '%(%s)T' -1
    (umask 077 && printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "${muster_number:-1}" "$now" "$reason" "$ranks" "$told" \
        "$muster_save_signal" "$muster_save_words" >>"$muster_run_dir/saves")
}

# Finds out, at the end of an attempt, whether the ranks were told by Slurm itself: it sends SIGTERM to all processes of a
# job that it ends, and where a preemption has a grace time, to those of its steps alone.
muster_find_told() {
    local reason
    [ -z "$muster_saved" ] || return 0
    muster_find_save_reason
    if [ "$reason" = preemption ]; then
        muster_saved=preemption muster_save_words='the job was preempted'
    elif [ "${muster_interrupted:-}" = 143 ]; then
        muster_saved=ended muster_save_words='the job was told to end'
    fi
}

# Runs the text that signals ranks on every node of the job, in a step beside that of the ranks.
muster_signal_nodes() {
    timeout 60 srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --nodelist="$SLURM_JOB_NODELIST" --ntasks="$SLURM_JOB_NUM_NODES" \
        --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --gres=none --mpi=none --input=none --quiet --export=NONE --chdir=/ \
        /bin/sh -c "$muster_signals" muster "$MUSTER_SAVE_RUN" "$(kill -l "$muster_save_signal")"
}

# Why the script was told: it is to be cancelled, or preempted, or its time comes to an end, or somebody asked. One request.
# Result in $reason.
muster_find_save_reason() {
    local state preempted now end
    # muster cancel --save leaves this file.
    [ ! -e "$muster_run_dir/cancel" ] || { reason=cancel && return; }
    printf -v now '%(%s)T' -1
    state=$(timeout 10 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null)
    preempted=${state##* PreemptTime=}
    end=${state#* EndTime=}
    end=$(date -d "${end%% *}" +%s 2>/dev/null)
    case ${preempted%% *} in
    [0-9]*) reason=preemption ;;
    *) reason=asked && [ -n "$end" ] && [ $((end - now)) -le $((muster_save_ahead + 90)) ] && reason=limit ;;
    esac
}
