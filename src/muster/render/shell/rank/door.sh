# Starts the door of this host, which lets nobody else's processes reach the ranks' store (docs/guides/closed.md): $1 is
# its text. The first rank of the host starts it, with the host's own Python, and the door ends with that rank.
if [ "$muster_local_rank" -eq 0 ]; then
    # A name that tells the version saves a start.
    for muster_python in /usr/bin/python3.[6-9] /usr/bin/python3.[1-9][0-9] ''; do
        [ ! -x "$muster_python" ] || break
    done
    [ -n "$muster_python" ] || muster_find_python "$(command -v python3)" /usr/libexec/platform-python || {
        read -r muster_here </proc/sys/kernel/hostname
        muster_here="$muster_here has no Python 3.6 or later, by which the door of a closed job runs"
        muster_python=$(python3 -V 2>/dev/null)
        muster_stop "$muster_here${muster_python:+: its python3 is $muster_python}" \
            'omit --closed, or load a Python: --module'
    }
    (
        unset RANK # who looks at the ranks takes each process that has it for one
        exec </dev/null
        set -- "$muster_python" -I -S -c "$1"
        [ "$muster_rank" -ne 0 ] || exec "$@" store "$muster_port" "$$" "$muster_nodes"
        exec >/dev/null 2>&1
        exec "$@" node "$muster_port" "$$" "$muster_address"
    ) &
    # A step lasts while the door holds its output open: the door need not look for itself.
    # shellcheck disable=SC2064  # the number of the door
    trap "kill $! 2>/dev/null" EXIT
fi
shift
unset MUSTER_DOOR_KEY
# torch connects to a store that stands already, on rank 0 too.
export TORCHELASTIC_USE_AGENT_STORE=True
