# Runs the srun command $@ where no watch was read: srun ends all ranks when one fails. Its own status may be that of a
# rank that srun ended (143): the end counts that the rank of srun's first message has written.
muster_step() {
    local failed
    export MUSTER_DIRECTORY=$PWD
    failed=$(set -o pipefail && "${@/#--kill-on-bad-exit=0/--kill-on-bad-exit=1}" 2>&1 >&8 | (trap '' INT TERM HUP &&
        exec sed -unE -e 'w /dev/stderr' -e 's/^srun: error: [^:]+: tasks? ([0-9]+)[0-9,-]*: .*/\1/p' 2>&9))
    muster_status=$?
    failed=$(sed -n "s/^${failed%%$'\n'*} \([1-9]\)/\1/p" "$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}".* 2>/dev/null)
    muster_status=${failed:-$muster_status}
} 8>&1 9>&2
