# Runs the srun command $@ where no watch was read: srun ends all ranks when one fails. Its own status may be that of a
# rank that it ended, so the first message counts.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    muster_status=$(
        {
            "${@/#--kill-on-bad-exit=0/--kill-on-bad-exit=1}" 2>&7 >&8
            printf 'muster-status %s\n' "$?" >&7
        } 7>&1 2>/dev/null | {
            trap '' INT TERM HUP
            status='' seen=''
            while IFS= read -r line || [ -n "$line" ]; do
                case $line in 'muster-status '*) status=${line#muster-status } && continue ;; esac
                printf '%s\n' "$line" >&9
                [ -n "$seen" ] || muster_status_in "$line"
            done
            printf '%s\n' "${seen:-$status}"
        }
    )
    : "${muster_status:=143}"
} 8>&1 9>&2
