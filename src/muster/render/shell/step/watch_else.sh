# Runs the srun command $@ where no watch was read: srun ends all ranks when one fails. Its own status may be that of a
# rank that srun ended (143), or 0 where a rank did not start: the end counts that the rank of its first message wrote.
muster_step() {
    local failed ended
    export MUSTER_DIRECTORY=$PWD
    failed=$(set -o pipefail && "${@/#--kill-on-bad-exit=0/--kill-on-bad-exit=1}" 2>&1 >&8 | (trap '' INT TERM HUP &&
        exec sed -unE -e 'w /dev/stderr' -e 's/^srun: error: ([^:]+: )?tasks? ([0-9]+)[^:]*: .*/\2/p' 2>&9))
    muster_status=$?
    ended=$(sed -n "s/^${failed%%$'\n'*} \([1-9]\)/\1/p" "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}".* 2>/dev/null)
    muster_status=${ended:-$((muster_status || !${#failed} ? muster_status : 1))}
} 8>&1 9>&2
