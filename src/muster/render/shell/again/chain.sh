# A job that is not done goes on in one next job, its next link. The next link is queued when this link begins, and
# waits for the end of this link (afterany), however that comes. RUN/links has one line for each link: its number, its
# job, and when it was queued. RUN/over says that there is nothing left to do. "sbatch FILE link N RUN" queues link N.
# shellcheck disable=SC2034,SC2154  # other parts of the script set and use these
muster_link=1
# Slurm says there why it ends the job. Later attempts write their own words elsewhere.
muster_slurm_words=$(readlink "/proc/$$/fd/2")
[ "${1:-}" != link ] || muster_link=$2 muster_chain_run=$3

# Begins this link, of so many at most. ahead=yes: all links were queued at once, because jobs cannot queue any here.
muster_chain() {
    local muster_ahead=
    muster_take 'muster_chain: links ahead' "$@"
    muster_own=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    muster_own=${muster_own:-$SLURM_JOB_ID}
    [ ! -f "$muster_run_dir/over" ] || muster_end_idle "$(cat "$muster_run_dir/over")"
    # Two jobs never are the same link: the file is made by one of them alone.
    (set -C && umask 077 && printf '%s\n' "$muster_own" >"$muster_run_dir/link-$muster_link") 2>/dev/null
    [ "$(cat "$muster_run_dir/link-$muster_link")" = "$muster_own" ] ||
        muster_end_idle "link $muster_link is job $(cat "$muster_run_dir/link-$muster_link")"
    [ "$muster_link" -eq 1 ] || muster_look_back
    muster_note_link "$muster_link" "$muster_own"
    muster_keep_array
    [ -z "$muster_ahead" ] || return 0
    [ -f "${muster_run_dir%/task-*}/job.sh" ] || cp "$0" "$muster_run_dir/job.sh"
    [ "$muster_link" -ge "$muster_links" ] || [ -n "$(muster_job_of_link $((muster_link + 1)))" ] || {
        (muster_queue_link new 10 20 40 80 160) </dev/null >/dev/null &
        muster_queueing=$!
    }
}

# Keeps what the first link says of the whole array: a later link is an array of one task.
muster_keep_array() {
    local name
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] || return 0
    if [ "$muster_link" -eq 1 ]; then
        for name in COUNT MIN MAX STEP; do
            name=SLURM_ARRAY_TASK_$name
            printf '%s=%s\n' "$name" "${!name:-}"
        done >"$muster_run_dir/array"
    elif [ -f "$muster_run_dir/array" ]; then
        while read -r name; do export "${name?}"; done <"$muster_run_dir/array"
    fi
}

# Ends a link that has nothing to do, for the reason $1.
muster_end_idle() {
    printf 'muster: link %s of the job does nothing: %s\n' "$muster_link" "$1" >&2
    exit 0
}

# The job of link $1, if it is known.
muster_job_of_link() {
    awk -v link="$1" '$1 == link { job = $2 } END { print job }' "$muster_run_dir/links" 2>/dev/null
}

# The number of the last attempt of job $1; nothing where it began none.
muster_last_attempt() { awk -F '\t' -v job="$1" '$5 == job { last = $1 } END { print last }' "$muster_run_dir/attempts" 2>/dev/null; }

# Writes down that link $1 is job $2, once.
muster_note_link() {
    local now
    [ "$(muster_job_of_link "$1")" != "$2" ] || return 0
    printf -v now '%(%s)T' -1
    (umask 077 && printf '%s\t%s\t%s\n' "$1" "$2" "$now" >>"$muster_run_dir/links")
}

# How the link before this one ended, where it could not say so itself. A link that Slurm has put back into the queue
# looked at that when it first began.
muster_look_back() {
    local before state now last
    [ -z "$(muster_last_attempt "$muster_own")" ] || return 0
    before=$(muster_job_of_link $((muster_link - 1)))
    last=$(muster_last_attempt "$before")
    case $(awk -F '\t' -v last="$last" '$1 == last { decision = $7 } END { print decision }' "$muster_run_dir/ends" 2>/dev/null) in
    next | saved) return 0 ;;
    esac
    state=$(timeout 30 scontrol --oneliner show job "$before" 2>/dev/null)
    [ -n "$state" ] || state=JobState=$(timeout 30 sacct -X --noheader --parsable2 --format=State --jobs="$before" 2>/dev/null)
    state=${state#*JobState=}
    state=${state%% *}
    case $state in
    '' | TIMEOUT* | PREEMPTED* | NODE_FAIL* | BOOT_FAIL*) ;;
    *)
        muster_close "job $before is $state"
        muster_end_idle "job $before is $state"
        ;;
    esac
    [ -n "$last" ] || return 0
    printf -v now '%(%s)T' -1
    (umask 077 && printf '%s\t%s\t%s\t143\t\t\tnext\t%s\tthe job goes on\n' "$last" \
        "$(awk -v last="$last" '$1 == last { began = $2 } END { print began }' "$muster_run_dir/attempts")" "$now" \
        "job $before ended (${state:-Slurm does not say how})" >>"$muster_run_dir/ends")
}

# Queues the next link. $1: "new", or "look" where an earlier try may have had no answer: then the controller may have
# the job already. Others: how long to wait before it is tried again where the controller does not answer.
muster_queue_link() {
    local try=$1 next=$((muster_link + 1)) own=$SLURM_JOB_ID task=${SLURM_ARRAY_TASK_ID:-} answer='' words name
    local place=${SLURM_SUBMIT_DIR:-$PWD} settings=${SLURM_CONF:-} script=${muster_run_dir%/task-*}/job.sh
    shift
    [ -f "$script" ] || script=$muster_run_dir/job.sh
    words=(--parsable "--dependency=afterany:$muster_own" --open-mode=append ${task:+"--array=$task"})
    grep -q '^#SBATCH.* --output' "$script" || words+=("--output=$muster_run_dir/logs/batch.log")
    for name in "${!SLURM_@}" "${!SBATCH_@}" "${!MUSTER_@}"; do unset "$name"; done
    [ -z "$settings" ] || export SLURM_CONF=$settings
    while :; do
        [ "$try" = new ] || answer=$(muster_find_link "$own")
        [ -n "$answer" ] ||
            answer=$(cd "$place" && timeout 60 sbatch "${words[@]}" "$script" link "$next" "$muster_run_dir" 2>&1)
        name=$(printf '%s\n' "$answer" | grep -E -m 1 '^[0-9]+(;.*)?$')
        [ -z "$name" ] || break
        case $answer in
        '' | *ontact* | *'imed out'* | *emporarily*) ;;
        *) set -- ;;
        esac
        if [ "$#" -eq 0 ]; then
            printf 'muster: warning: the next link of this job is not queued: %s\n' "${answer:-sbatch did not answer}" >&2
            return 1
        fi
        sleep "$1"
        shift
        try=look answer=''
    done
    muster_note_link "$next" "${name%%;*}${task:+_$task}"
}

# The job that waits for the end of this one and has the same name and comment, if the controller has one.
muster_find_link() {
    timeout 60 squeue --me --noheader --format='%A|%i|%j|%k|%E' 2>/dev/null | awk -F '|' -v job="$1" -v own="$muster_own" '
        { likeness[$1] = $3 "|" $4 }
        index($5, "afterany:" own "(") { first[$1] = $2 }
        END { for (each in first) if (likeness[each] == likeness[job]) { sub(/_.*/, "", first[each]); print first[each] } }' |
        sort -n | head -n 1
}

# Whether somebody cancelled this job: Slurm says so in the job's own output, and adds no reason.
muster_is_cancelled() {
    tail -c 65536 "$muster_slurm_words" 2>/dev/null | grep -q "JOB $SLURM_JOB_ID ON [^ ]* CANCELLED AT [^ ]* \*\*\*"
}

# Whether the next link goes on where this one is told to end; what Slurm says of the reason is the first cause.
muster_goes_on_later() {
    case $(tail -c 65536 "$muster_slurm_words" 2>/dev/null | grep "JOB $SLURM_JOB_ID ON [^ ]* CANCELLED AT" | tail -n 1) in
    *'DUE TO TIME LIMIT'*) muster_cause='the time limit was reached' muster_cause_kind='' ;;
    *'DUE TO PREEMPTION'*) muster_cause='it was preempted' muster_cause_kind='' ;;
    esac
    [ "$muster_link" -lt "$muster_links" ] && [ "${muster_saved:-}" != cancel ] && ! muster_is_cancelled
}

# Whether the job gets on: two links in turn that ended without a new checkpoint are the last. RUN/progress has a line for
# each link: its number, and the checkpoint at which it began. Where no host looks for checkpoints, nothing is known.
muster_gets_on() {
    local link checkpoint before=0
    [ -n "${muster_searched:-}" ] || return 0
    while IFS=$'\t' read -r link checkpoint; do
        case $link in
        "$muster_link") before='' && break ;; # Slurm has put this link back into the queue
        $((muster_link - 1)) | $((muster_link - 2))) [ "$checkpoint" != "$muster_checkpoint" ] || before=$((before + 1)) ;;
        esac
    done < <(cat "$muster_run_dir/progress" 2>/dev/null)
    [ -n "$before" ] || return 0
    (umask 077 && printf '%s\t%s\n' "$muster_link" "$muster_checkpoint" >>"$muster_run_dir/progress")
    [ "$before" -lt 2 ]
}

# Ends a job that does not get on, before its ranks start.
muster_end_without_progress() {
    muster_status=1 muster_decision=end muster_outside='' muster_failed_rank='' muster_failed_host='' muster_cause_kind=''
    muster_why='no new checkpoint in two links' muster_cause="link $((muster_link - 2)) and link $((muster_link - 1)) saved nothing"
    printf 'muster: error: %s: %s\n\nhint: %s\n' "the job does not go on, $muster_why" "$muster_cause" \
        "a longer time limit, or a checkpoint more often, before $muster_saves is written within one link" >&2
    muster_note_end "not started: $muster_why"
}

# Writes down that the job is over, for the reason $1.
muster_close() {
    (umask 077 && printf '%s\n' "$1" >"$muster_run_dir/over")
}

# Ends this link: the next one goes on, or is not needed.
muster_end_link() {
    local next
    [ "$muster_decision" != saved ] || muster_outside=1
    if [ -f "$muster_run_dir/over" ]; then
        : # muster cancel has said so
    elif [ "${muster_saved:-}" = cancel ]; then # muster cancel --save
        muster_close "job $muster_own was cancelled"
    elif [ "$muster_decision" = "done" ]; then
        muster_close 'the script is done'
    elif [ -z "${muster_outside:-}" ]; then
        muster_close "${muster_why:-it failed}"
    elif muster_is_cancelled; then
        muster_close "job $muster_own was cancelled"
    elif [ "$muster_link" -ge "$muster_links" ]; then
        muster_close "link $muster_link of $muster_links was the last"
        printf 'muster: link %s of %s was the last: the job does not go on\n' "$muster_link" "$muster_links" >&2
    else
        muster_goes_on=1
    fi
    [ -n "${muster_goes_on:-}" ] || [ -z "${muster_queueing:-}" ] || kill "$muster_queueing" 2>/dev/null
    [ -z "${muster_queueing:-}" ] || wait "$muster_queueing"
    next=$(muster_job_of_link $((muster_link + 1)))
    if [ -z "${muster_goes_on:-}" ]; then
        [ -z "$next" ] || timeout 30 scancel --quiet "$next"
    elif [ -z "$next" ] && [ -n "${muster_queueing:-}" ]; then
        muster_queue_link look 5 10
    fi
}
