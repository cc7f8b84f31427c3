# A job that goes on when a rank fails: the same ranks start again, as a new step of the same allocation.

# Run the ranks until they end well or must not start again; they may so many times. starter: a "step" of Slurm's, or a
# "program" of the script's. lines=labelled: each begins with its rank.
muster_again() {
    local again=0 before='' signature
    muster_times=0 muster_starter=step muster_lines=
    muster_take 'muster_again: times starter lines' "$@"
    : "${muster_number:=1}"
    if [ -n "${muster_link:-}" ] && ! muster_gets_on; then
        printf -v muster_began '%(%s)T' -1
        muster_end_without_progress
        return
    fi
    muster_open_notes
    while :; do
        printf -v muster_began '%(%s)T' -1
        muster_saved=''
        muster_run_attempt
        [ -z "${muster_save_signal:-}" ] || muster_find_told
        [ "$muster_status" -ne 0 ] || break
        muster_find_cause
        signature=$muster_status:$(printf '%s' "$muster_failed_words" | sed 's/[0-9][0-9]*/0/g')
        [ -n "$muster_failed_words" ] || [ "$muster_status" -le 128 ] || signature=$signature:$muster_failed_host:$muster_failed_rank
        muster_decide "$again" "$before" "$signature"
        muster_tell "$again"
        [ "$muster_decision" = again ] || return 0
        before=$muster_signature again=$((again + 1))
        muster_prepare_attempt
    done
    muster_decision="done" muster_failed_rank='' muster_failed_host='' muster_cause_kind='' muster_cause='' muster_why=''
    ! muster_was_to_end || muster_decision=saved muster_cause=$muster_save_words muster_why='they ended well'
    muster_note_end "$muster_why"
}

# Five files without a name: what was said where no file of the run holds it, why somebody ended the attempt, the status of
# ranks that another process of this script waits for, whether the step of the attempt still stands, and who left early.
muster_open_notes() {
    local file
    for file in said reason ended stood left; do
        exec {muster_notes}<>"$(mktemp)" && rm -f "$(readlink "/proc/$$/fd/$muster_notes")"
        printf -v "muster_$file" '/proc/%s/fd/%s' "$$" "$muster_notes"
    done
}

# One attempt; result in $muster_status. Where the ranks' errors go to the caller, their end is kept.
muster_run_attempt() {
    local name muster_ears
    : >"$muster_said"
    : >"$muster_reason"
    : >"$muster_stood"
    : >"$muster_left"
    if [ -n "${muster_keeps_logs:-}" ]; then
        ${muster_save_signal:+muster_hear} muster_ranks
        muster_files=("$muster_logs"/*.log)
    else
        exec {muster_ears}> >(tee -i >(exec tail -c 65536 >"$muster_said") >&2; wait)
        name=$!
        ${muster_save_signal:+muster_hear} muster_ranks 2>&"$muster_ears"
        exec {muster_ears}>&-
        # A process that outlives the ranks, a daemon of mpirun's for example, holds the pipe open: the file is written all the same.
        for _ in {1..100}; do kill -0 "$name" 2>/dev/null && sleep 0.05; done
        ! pkill -P "$name" -x tee || for _ in {1..40}; do kill -0 "$name" 2>/dev/null && sleep 0.05; done
        muster_files=("$muster_said")
    fi
}

# End the running attempt for the reason $1: from any process of this script. Its ranks start again if they may.
muster_end_attempt() {
    local step pid
    printf '%s\n' "$1" >"$muster_reason"
    while read -r step pid; do
        [ "$muster_starter" != step ] || muster_end_waiting_srun "$pid" "${MUSTER_GRACE:-10}"
    done < <(muster_find_steps)
    muster_signal_ranks TERM
    (sleep "${MUSTER_GRACE:-10}" && [ -s "$muster_reason" ] && muster_signal_ranks KILL) </dev/null >/dev/null 2>&1 &
}

# Send the signal $1 to what runs the ranks. The job itself never gets one: Slurm takes SIGKILL for its cancellation.
muster_signal_ranks() {
    local steps
    [ "$muster_starter" = step ] || pkill "-$1" -P "${muster_starting:-$$}" -x 'mpi(run|exec).*'
    mapfile -t steps < <(muster_find_steps)
    [ "${#steps[@]}" -eq 0 ] || scancel --quiet --signal="$1" "${steps[@]% *}"
}

# Print each step that this script has started, but for its deputy's, and the pid of its srun. Others may run steps in the
# same allocation.
muster_find_steps() {
    local step pid above
    while read -r step pid; do
        for ((above = pid; above > 1; )); do
            [ "$above" -ne "$$" ] || { printf '%s %s\n' "$step" "$pid" && break; }
            above=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$above/status" 2>/dev/null)
        done
    done < <(timeout 30 scontrol --oneliner show step "$SLURM_JOB_ID" |
        sed -nE '/ Name=muster-deputy /d; s/^StepId=([^ ]*\.[0-9]+) .*SrunHost:Pid=[^ ]*:([0-9]+)( .*|$)/\1 \2/p')
}

# The first cause: the rank, its host, what it said last, and in words; $muster_cause_kind: "rank", "node", or nothing for others.
muster_find_cause() {
    local end=''
    muster_failed_rank='' muster_failed_host='' muster_failed_words='' muster_failed_daemon=''
    # What Slurm ends with the job, a daemon of mpirun's for example, has not failed, and its node has not either.
    [ -n "${muster_interrupted:-}" ] || muster_was_to_end || muster_find_failed "${muster_files[@]}"
    muster_find_words
    # A status above 128 that is of no signal is one that the program chose.
    [ "$muster_status" -le 128 ] || end=$(kill -l "$((muster_status - 128))" 2>/dev/null)
    end=${end:+ended by SIG$end}
    end=${end:-exit status $muster_status}
    muster_cause="${muster_failed_rank:+rank $muster_failed_rank${muster_failed_host:+ on $muster_failed_host}: }$end"
    [ -n "$muster_failed_rank" ] || [ -z "$muster_failed_host$muster_failed_daemon" ] ||
        muster_cause=${muster_failed_daemon:-$muster_failed_host failed}
    muster_cause_kind=${muster_failed_rank:+rank}
    [ -n "$muster_failed_rank$muster_failed_daemon" ] || muster_cause_kind=${muster_failed_host:+node}
    muster_cause=$muster_cause${muster_failed_words:+ ($muster_failed_words)}
    # Whose connection is lost because another rank has left did not fail first.
    ! muster_has_lost_connection || [ ! -s "$muster_left" ] ||
        muster_cause="$(head -n 1 "$muster_left") ended with status 0, and then $muster_cause"
    muster_find_memory
    if [ -n "${muster_unsaid:-}" ]; then
        muster_cause=$muster_unsaid muster_failed_rank='' muster_failed_host=$muster_unsaid_host muster_cause_kind=node
        [ -n "$muster_unsaid_state" ] || muster_cause_kind=unsaid
    fi
    [ ! -s "$muster_reason" ] || { muster_cause=$(head -n 1 "$muster_reason") && muster_cause_kind=''; }
}

# Where Slurm ended a step because of its memory, it counted that of a whole node: no rank failed first, nor did a node.
muster_find_memory() {
    local file host used
    read -r host used < <(for file in "${muster_files[@]}"; do tail -c 262144 "$file"; done | sed -n -E \
        -e 's/.*slurmstepd-?([^: ]*): error: .*exceeded memory limit \(([0-9]+) > ([0-9]+)\).*/\1 \2,\3/p' | head -n 1)
    [ -n "$host" ] || return 0
    case $host in *,*) used=$host host='' ;; esac
    muster_failed_rank='' muster_failed_host='' muster_failed_words='' muster_cause_kind=''
    muster_cause="Slurm ended the ranks: ${host:+on $host }they used $((${used%,*} >> 20)) MiB of memory, and had $((${used#*,} >> 20))"
}

# The last line of an error that the first failed rank wrote. Result in $muster_failed_words.
muster_find_words() {
    local file files=("${muster_files[@]}")
    for file in "$muster_logs/$muster_failed_host.$muster_failed_rank.log" "$muster_logs/$muster_failed_host.log"; do
        [ -z "$muster_failed_host" ] || [ ! -f "$file" ] || { files=("$file") && break; }
    done
    muster_failed_words=$(for file in "${files[@]}"; do tail -c 262144 "$file"; done | awk -v rank="$muster_failed_rank" -v labelled="$muster_lines" '
        {
            text = $0
            who = ""
            if (match(text, /^ *[0-9]+: /)) {
                who = substr(text, 1, RLENGTH - 2) + 0
            } else if (match(text, /^\[[0-9]+,[0-9]+\]<std[a-z]+>:/)) {
                split(text, parts, /[],]/)
                who = parts[2] + 0
            } else if (match(text, /^\[[0-9]+\] /)) {
                who = substr(text, 2) + 0
            }
            if (who != "") text = substr(text, RLENGTH + 1)
            if ((rank != "" && who != "" && who != rank) || text ~ /^srun: |^slurmstepd|^muster: (rank|attempt) /) next
            if (text !~ /Error|Exception|[Ee]rror: |usage:|[Ff]atal|[Ff]ault|[Aa]bort|terminate called|[Oo]ut of memory|No such file|can.t open|not found/) next
            common = text
            if (who != "") own = text
        }
        END { print labelled == "labelled" ? own : common }' | tr '\t' ' ' | cut -c 1-300)
}

# Whether the ranks start again, by how often they did ($1), and the failure before ($2) and now ($3).
# Results in $muster_decision, $muster_why and, where the cause lies outside the ranks, $muster_outside.
muster_decide() {
    local state list end muster_dead=''
    muster_signature=$3
    muster_decision=end
    muster_outside=1
    ! muster_may_lack_node "$1" || muster_find_dead
    [ -z "$muster_dead" ] || [ -n "${muster_place:-}" ] || muster_await_end
    if [ -n "${muster_interrupted:-}" ]; then
        muster_why='the job was told to end'
        return
    fi
    if muster_was_to_end; then
        muster_why=$muster_save_words
        return
    fi
    if [ -n "$muster_dead" ] && [ -z "${muster_place:-}" ]; then
        muster_why="$muster_dead starts no step"
        return
    fi
    muster_outside=
    case $muster_status:$muster_failed_words in
    *'muster: error: port '*) ;; # the next attempt has another
    126:* | 127:*) muster_why='there is no such program' && return ;;
    *:*ModuleNotFoundError:* | *:*ImportError:*) muster_why='a module that is missing would be missing again' && return ;;
    *:*FileNotFoundError:* | 2:*"can't open file"*) muster_why='a file that is missing would be missing again' && return ;;
    *:*SyntaxError:* | *:*IndentationError:* | *:*TabError:*) muster_why='an error of syntax stays one' && return ;;
    2:*'usage:'* | 2:*': error: '*) muster_why='an error of usage stays one' && return ;;
    esac
    state=$(timeout 10 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null)
    list=${state#* NodeList=}
    list=${list%% *}
    end=${state#* EndTime=}
    muster_lost=
    state=${state##* JobState=}
    case ${state%% *} in
    RUNNING | '') ;; # a controller that is away ends nothing
    *) muster_why="the job itself ends (${state%% *})" muster_outside=1 && return ;;
    esac
    # Slurm looks at its limits every 30 seconds, and starts no step meanwhile in a job whose time is over.
    if [ -n "$end" ] && [ "$(date -d "${end%% *}" +%s 2>/dev/null || echo 9999999999)" -le "$(date +%s)" ]; then
        muster_why='the time limit was reached' muster_outside=1
        return
    fi
    [ -z "${muster_place:-}" ] || muster_replace_nodes "$list" || return 0
    if [ -z "$muster_lost" ] && [ "$2" = "$3" ] && ! muster_has_new_checkpoint; then
        muster_why='the same first error came twice, and no new checkpoint in between'
    elif [ "$1" -ge "$muster_times" ]; then
        # The script has not failed where a node died: the next link goes on.
        muster_outside=$muster_lost
        muster_why="that was allowed $muster_times time$([ "$muster_times" -eq 1 ] || echo s)"
    else
        muster_decision=again
    fi
}

# Whether a node may have died that Slurm does not call dead yet: mpirun ended and no rank did, or a rank lost a connection;
# and whether the ranks, which have started again $1 times, may do so: they need all their nodes.
muster_may_lack_node() {
    [ -z "${muster_interrupted:-}" ] && [ "$muster_nodes" -gt 1 ] || return 1
    [ "$1" -ge "$muster_times" ] && { [ "$muster_starter" = step ] || [ -n "$muster_failed_rank" ]; } || return 0
    muster_has_lost_connection
}

# Whether the last words of the rank that failed are about a connection.
muster_has_lost_connection() {
    case $muster_failed_words in *[Cc]onnect* | *BrokenPipe* | *[Pp]eer* | *NCCL* | *'imed out'* | *nreachable*) return 0 ;; esac
    return 1
}

# Finds a node of the ranks that starts no step, by one step over all of them: ranks and mpirun lose a node before Slurm does.
# Result in $muster_dead, and then in the cause.
muster_find_dead() {
    local line
    while read -r line; do
        case $line in *' failed on node '*) muster_dead=${line##* failed on node } && break ;; esac
    done < <(muster_on_nodes 30 /bin/true 2>&1)
    muster_dead=${muster_dead%%[: ]*}
    [ -z "$muster_dead" ] || { kill "$!" && muster_cause="$muster_dead failed" && muster_cause_kind=node muster_failed_host=$muster_dead muster_failed_rank=; } 2>/dev/null
}

# Ends the srun $1, if it outlives the SIGKILL that its step gets $2 seconds from now: at once where a node starts no step,
# for Slurm may take minutes to call that node down, and after a minute otherwise: a slurmstepd was killed.
muster_end_waiting_srun() {
    [ -s "$muster_left" ] || muster_find_left >"$muster_left"
    (
        trap - TERM INT HUP USR1
        read -rt "$(($2 + 3))" <> <(:)
        for pause in 20 20 20 0; do
            read -r name <"/proc/$1/comm" && [ "$name" = srun ] || exit
            muster_find_dead
            [ -z "$muster_dead" ] || break
            read -rt "$pause" <> <(:)
        done
        step=$(muster_find_steps | sed -n "s/^[^ ]*\.\([0-9]*\) $1$/\1/p")
        [ -n "$muster_dead" ] || [ -z "$step" ] || muster_end_left "$step"
        printf '%s\n' "$1" >"$muster_stood"
        exec kill -KILL "$1"
    ) </dev/null >/dev/null 2>&1 7>&- 8>&- 9>&- &
}
muster_outlived=muster_end_waiting_srun

# Prints the first rank that has said that it ended with 0, and its host, before the others are told to end. The agents of
# torchrun say nothing of their ranks.
muster_find_left() {
    local file rank word names=()
    [ "${MUSTER_LAUNCHER:-}" = srun ] || return 0
    for file in "${MUSTER_ENDS:-/nowhere}/${MUSTER_ATTEMPT:-1}".*; do
        while read -r rank word; do
            [ "$word" = 0 ] || continue
            mapfile -t names < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
            printf 'rank %s on %s\n' "$rank" "${names[${file##*.}]:-?}"
            return
        done <"$file"
    done 2>/dev/null
}

# Ends what the step $1 of this job has left on its nodes: a slurmstepd that was killed leaves its ranks.
muster_end_left() {
    # shellcheck disable=SC2016
    (muster_on_nodes 60 /bin/sh -c 'for file in $(grep -lszx "SLURM_JOB_ID=$1" $(grep -lszx "SLURM_STEP_ID=$2" /proc/[0-9]*/environ)); do
        file=${file%/environ} && kill -KILL "${file#/proc/}"
    done' muster "$SLURM_JOB_ID" "$1")
}

# Becomes a step beside that of the ranks, once on each of their nodes: the words after $1, within $1 seconds.
muster_on_nodes() {
    exec timeout "$1" srun --overlap --nodes="$muster_nodes" --nodelist="$SLURM_JOB_NODELIST" --ntasks="$muster_nodes" \
        --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --gres=none --mpi=none --input=none --quiet --export=NONE --chdir=/ "${@:2}"
}

# Waits until Slurm ends this job, whose node is dead: a quarter of an hour at most.
muster_await_end() {
    sleep 900 </dev/null >/dev/null 2>&1 &
    wait "$!"
    kill "$!" 2>/dev/null
}

# Whether the ranks were told to save because the job is about to end.
muster_was_to_end() { [ -n "$muster_saved" ] && [ "$muster_saved" != asked ]; }

# Takes spare nodes in the place of those that the job ($1: its list of nodes, empty where Slurm does not answer) has lost. Result in $muster_lost. Fails where
# too few are left.
muster_replace_nodes() {
    local before=$SLURM_JOB_NODELIST list=${1:-$muster_pool} name
    muster_pool=$list
    [ -z "$muster_dead" ] || list=$(scontrol show hostnames "$list" | grep -vxF "$muster_dead" | paste -s -d ,)
    if ! muster_place_ranks "$list"; then
        muster_decision=end muster_outside=1
        muster_why="$(scontrol show hostnames "$list" | grep -c .) nodes are left, and the ranks need $muster_nodes"
        return 1
    fi
    for name in ${before//,/ }; do
        case ",$(scontrol show hostnames "$list" | tr '\n' ',')" in
        *",$name,"*) ;;
        *) muster_lost=$muster_lost${muster_lost:+ }$name ;;
        esac
    done
    # What the launcher says of a node that died may be wrong: mpirun names any daemon, and a rank that Slurm ended.
    [ -z "$muster_lost" ] || muster_cause="$muster_lost failed" muster_cause_kind=node muster_failed_host=${muster_lost%% *} muster_failed_rank=''
}

# Whether a whole checkpoint was written since the attempt began.
muster_has_new_checkpoint() {
    local before=${muster_checkpoint:-}
    [ -n "${muster_saves:-}" ] || return 1
    muster_find_checkpoint "$muster_saves"
    [ "$muster_checkpoint" != "$before" ]
}

# Say what happened and what is done, and write it down.
muster_tell() {
    local told
    if [ "$muster_decision" = again ]; then
        told="${muster_lost:+$muster_lost is lost; }the same ranks start again${muster_lost:+ on $SLURM_JOB_NODELIST} (restart $(($1 + 1)) of $muster_times)"
    elif [ -n "$muster_outside" ] && [ -n "${muster_link:-}" ] && muster_goes_on_later; then
        muster_decision=next told="$muster_why; the job goes on in its next link"
    else
        told="not started again: $muster_why"
    fi
    printf 'muster: attempt %s ended: %s; %s\n' "$muster_number" "$muster_cause" "$told" >&2
    muster_note_end "$told"
}

# One line in RUN/ends: number, when it began and ended, status, rank, host, decision, cause, what was done, kind of the
# cause, and the rank's last error line.
muster_note_end() {
    local now
    [ -n "${muster_logs:-}" ] || return 0
    printf -v now '%(%s)T' -1
    (umask 077 && printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$muster_number" "$muster_began" "$now" "$muster_status" \
        "${muster_failed_rank:-}" "${muster_failed_host:-}" "$muster_decision" "${muster_cause:-}" "$1" \
        "${muster_cause_kind:-}" "${muster_cause_kind:+${muster_failed_words:-}}" >>"$muster_run_dir/ends")
}

# The next attempt: its number and logs, another port, and a name of its own for the meeting.
muster_prepare_attempt() {
    if [ "$(type -t muster_attempt)" = function ]; then
        muster_attempt "${muster_lost:-}"
    else
        muster_number=$((muster_number + 1))
    fi
    export MUSTER_ATTEMPT=$muster_number
    # Slurm keeps the step of the attempt before until its dead node is back, and starts no other on its nodes meanwhile.
    [ -z "${muster_lost:-}$(cat "$muster_stood")" ] || export SLURM_OVERLAP=1
    [ -z "${muster_report:-}" ] || rm -f "$muster_report"
    [ -z "${MUSTER_STEP:-}" ] || MUSTER_STEP=${MUSTER_STEP%%-*}-$muster_number
    [ -z "${muster_saves:-}" ] || muster_find_checkpoint "$muster_saves"
    [ "$(type -t muster_choose_port)" != function ] || muster_move_port
    [ "$(type -t muster_mpirun_hosts)" != function ] || muster_mpirun_hosts
}

# Another port than that of the attempt before, whose ranks may still be about.
muster_move_port() {
    unset MUSTER_PORT_CHOSEN
    muster_port=${MUSTER_PORT:-}
    [ -n "$muster_port" ] || muster_port_from_ids "$SLURM_JOB_ID" "$((muster_number * 7))"
    for _ in {1..64}; do
        muster_port=$((MUSTER_PORT_LOW + (muster_port + 1 - MUSTER_PORT_LOW) % MUSTER_PORT_COUNT))
        muster_port_is_taken "$muster_port" || break
    done
    export MUSTER_PORT=$muster_port
}
