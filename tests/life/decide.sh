# Goes the decisions of a job's script, for each line of facts on the standard input, and prints what it decides: the
# decision, the host that is lost, why nothing is left to do, and whether the next link is withdrawn.
timeout() { shift && "$@"; }
scontrol() {
    case "$*" in
    *hostnames*) printf '%s\n' "${3//,/$'\n'}" ;;
    *'show job'*) [ -z "$fact_state" ] || printf 'JobId=1 JobState=%s EndTime=%s NodeList=%s \n' "$fact_state" "$fact_end" "$fact_hosts" ;;
    esac
}
scancel() { fact_withdrawn=yes; }
muster_find_dead() {
    muster_dead=$fact_dead
    [ -z "$fact_dead" ] || { muster_cause="$fact_dead failed" muster_cause_kind=node muster_failed_host=$fact_dead muster_failed_rank=''; }
}
muster_await_end() { :; }
muster_find_checkpoint() { muster_checkpoint=$fact_newest; }
muster_is_cancelled() { [ -n "$fact_cancelled" ]; }
muster_note_end() { :; }
muster_queue_link() { :; }
muster_run_dir=$1
while IFS='|' read -r link links ranks_nodes spares times again status told saved rank host words fact_state fact_late fact_hosts fact_dead fact_newest checkpoint saves same fact_cancelled; do
    rm -f "$muster_run_dir/over"
    : >"$muster_run_dir/links"
    [ "$link" -ge "$links" ] || printf '%s\tnext\t0\n' "$((link + 1))" >"$muster_run_dir/links"
    muster_link=$link muster_links=$links muster_nodes=$ranks_nodes muster_times=$times muster_starter=step muster_status=$status
    [ "$link" -gt 0 ] || muster_link=
    muster_place=() muster_requeue='' muster_goes_on='' muster_interrupted=$told muster_saved=$saved muster_save_words=saved
    [ "$spares" -eq 0 ] || muster_place=(--nodelist=x)
    SLURM_JOB_NODELIST=$fact_hosts muster_pool=$fact_hosts SLURM_JOB_ID=1 muster_own=1 muster_checkpoint=$checkpoint muster_saves=$saves
    muster_failed_rank=$rank muster_failed_host=$host muster_failed_words=$words muster_cause=cause muster_cause_kind=${rank:+rank}
    muster_why='' muster_outside='' muster_lost='' muster_queueing='' fact_withdrawn='' fact_end=2000-01-01T00:00:00 muster_number=1
    [ -n "$fact_late" ] || fact_end=2100-01-01T00:00:00
    if [ "$status" -eq 0 ]; then
        muster_decision="done"
        ! muster_was_to_end || muster_decision=saved
    else
        before=other
        [ -z "$same" ] || before=$status:$words
        muster_decide "$again" "$before" "$status:$words"
        muster_tell "$again" 2>/dev/null
    fi
    [ "$muster_decision" = again ] || [ -z "$muster_link" ] || muster_end_link 2>/dev/null
    over=$(cat "$muster_run_dir/over" 2>/dev/null)
    printf '%s|%s|%s\n' "$muster_decision" "${over:+over}" "${fact_withdrawn:-no}"
done
